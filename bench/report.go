package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A report is what a run has found.
type report struct {
	made     []string // when, how and on what
	subjects []subject
	sites    []string // the first is that of the pictures
	callers  []int
	keys     int  // over which callers spread
	cancel   bool // their contexts can be cancelled
	cells    cells
	refused  int
	weights  []weight
	byKeys   []curve
	byLimit  []curve
}

// fastest is the peer of a subject's kind with the most decisions a second, "" if there is none.
func (r *report) fastest(of subject, site string, callers int) string {
	best, name := 0.0, ""
	for _, peer := range r.subjects {
		if peer.ours || peer.apart || !of.rivals(peer) {
			continue
		}
		if v := r.cells.of(cell{site, callers, peer.name}, throughput); v > best {
			best, name = v, peer.name
		}
	}
	return name
}

// rivals tells whether two can stand for the same algorithm.
func (s subject) rivals(other subject) bool {
	return slices.ContainsFunc(s.kinds, other.is)
}

// glance is how many times as good as the fastest peer of its kind each of ours is.
func (r *report) glance(site string, m metric) string {
	t := table{append([]string{m.String()}, r.heads()...)}
	for _, sub := range r.subjects {
		if !sub.ours {
			continue
		}
		row, known := []string{sub.name}, false
		for _, n := range r.callers {
			peer := r.fastest(sub, site, n)
			lead := r.cells.lead(cell{site, n, sub.name}, peer, m)
			text := "–"
			if !math.IsNaN(lead) {
				text, known = figure(lead)+" × "+peer, true
			}
			row = append(row, text)
		}
		if known {
			t.row(row...)
		}
	}
	return t.String()
}

// overPing is how many times as long as PING each limiter takes in the middle.
func (r *report) overPing(site string) string {
	t := table{append([]string{"p50 over PING's"}, r.heads()...)}
	for _, sub := range r.subjects {
		if sub.floor() || math.IsNaN(r.cells.lead(cell{site, r.callers[0], sub.name}, "PING", p50)) {
			continue
		}
		row := []string{sub.name}
		for _, n := range r.callers {
			row = append(row, figure(1/r.cells.lead(cell{site, n, sub.name}, "PING", p50))+" ×")
		}
		t.row(row...)
	}
	return t.String()
}

func (r *report) heads() []string {
	heads := make([]string, len(r.callers))
	for i, n := range r.callers {
		heads[i] = callersText(n)
	}
	return heads
}

// metrics is a table of subjects and callers, with one metric in a field or several.
func (r *report) metrics(site, corner string, of ...metric) string {
	t := table{append([]string{corner}, r.heads()...)}
	for _, sub := range r.subjects {
		row := []string{sub.name}
		for _, n := range r.callers {
			var texts []string
			for _, m := range of {
				texts = append(texts, figure(r.cells.of(cell{site, n, sub.name}, m)))
			}
			row = append(row, strings.Join(texts, " / "))
		}
		if len(r.cells[cell{site, r.callers[0], sub.name}]) > 0 {
			t.row(row...)
		}
	}
	return t.String()
}

// memory is the table of bytes a key.
func (r *report) memory() string {
	t := table{{"bytes a key", "in all", "over an integer", fmt.Sprintf("over it, %d units taken", fullUnits), "a unit more"}}
	for _, w := range r.weights {
		t.row(w.subject, strconv.FormatInt(w.bytes, 10), strconv.FormatInt(w.over, 10), strconv.FormatInt(w.full, 10),
			figure(float64(w.full-w.over)/(fullUnits-1)))
	}
	return t.String()
}

// grown is the table of curves, and of the plain commands where they ran.
func grown(corner string, curves []curve) string {
	head := []string{corner}
	for _, x := range curves[0].x {
		head = append(head, short(float64(x)))
	}
	head = append(head, "grows")
	plain := curves[0].plain != nil
	if plain {
		head = append(head, "over "+plainName)
		curves = append(slices.Clone(curves), plainOf(curves))
	}
	t := table{head}
	for _, c := range curves {
		row := []string{c.subject}
		for i := range c.x {
			row = append(row, figure(c.at(i)))
		}
		row = append(row, figure(growth(c.own))+" ×")
		switch {
		case plain && c.plain != nil:
			row = append(row, figure(growth(c.own)/growth(c.plain))+" ×")
		case plain:
			row = append(row, "")
		}
		t.row(row...)
	}
	return t.String()
}
