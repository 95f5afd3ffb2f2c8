package main

import (
	"fmt"
	"strconv"
	"strings"
)

// notable is the least lead that is told: less may be chance.
const notable = 1.03

// lost lists what a peer is better in than ours, by the figures alone: an item
// a pair, and below it a line a metric.
func (r *report) lost() []string {
	var lines []string
	for _, own := range r.subjects {
		for _, peer := range r.subjects {
			if !own.ours || peer.ours || !own.rivals(peer) {
				continue
			}
			var under []string
			for _, m := range []metric{throughput, p50, p99, p999, cpu, busy, allocs} {
				if line := r.behind(own.name, peer.name, m); line != "" {
					under = append(under, "  - "+line)
				}
			}
			for _, line := range r.lighter(own.name, peer.name) {
				under = append(under, "  - "+line)
			}
			if len(under) > 0 {
				lines = append(append(lines, fmt.Sprintf("- **%s** over %s:", peer.name, own.name)), under...)
			}
		}
	}
	return lines
}

// behind tells where a peer is better in one metric, "" for nowhere.
func (r *report) behind(own, peer string, m metric) string {
	var places []string
	most := 0.0
	for _, site := range r.sites {
		var callers []string
		for _, n := range r.callers {
			if by := 1 / r.cells.lead(cell{site, n, own}, peer, m); by >= notable {
				callers, most = append(callers, strconv.Itoa(n)), max(most, by)
			}
		}
		if len(callers) > 0 {
			places = append(places, site+" with "+strings.Join(callers, ", "))
		}
	}
	if len(places) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, up to %s ×: %s", m, figure(most), strings.Join(places, "; "))
}

// lighter tells where a peer needs less memory, or grows less.
func (r *report) lighter(own, peer string) []string {
	var parts []string
	var a, b *weight
	for i := range r.weights {
		switch r.weights[i].subject {
		case own:
			a = &r.weights[i]
		case peer:
			b = &r.weights[i]
		}
	}
	if a != nil && b != nil {
		if less := a.over - b.over; less > 0 {
			parts = append(parts, fmt.Sprintf("memory: %d bytes a key less", less))
		}
		if less := a.full - b.full; less > 0 {
			parts = append(parts, fmt.Sprintf("memory: %d bytes a key less with %d units taken", less, fullUnits))
		}
	}
	for _, curves := range [][]curve{r.byKeys, r.byLimit} {
		var a, b *curve
		for i := range curves {
			switch curves[i].subject {
			case own:
				a = &curves[i]
			case peer:
				b = &curves[i]
			}
		}
		if a == nil || b == nil {
			continue
		}
		if last := len(a.x) - 1; a.at(last)/b.at(last) >= notable {
			what := "keys"
			if &curves[0] == &r.byLimit[0] {
				what = "units of limit"
			}
			parts = append(parts, fmt.Sprintf("Redis time %s × with %s %s", figure(a.at(last)/b.at(last)), short(float64(a.x[last])), what))
		}
	}
	return parts
}
