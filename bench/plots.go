package main

import (
	"bytes"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/weirgo/ratelimit"
)

// A family is one of the five, with the name and the color it has in all pictures.
type family struct {
	algorithm ratelimit.Algorithm
	name      string
	color     color.Color
}

var families = []family{
	{tokenBucket, "token bucket", rgb(0x0067ac)},
	{leakyBucket, "leaky bucket", rgb(0x0a8468)},
	{fixedWindow, "fixed window", rgb(0xcc3d0c)},
	{slidingLog, "sliding window log", rgb(0x7b3fa0)},
	{counter, "sliding window counter", rgb(0xb07700)},
}

var (
	dashes = []vg.Length{4, 2}
	grays  = []color.Color{rgb(0x57606a), rgb(0x7d858e), rgb(0x3d444d), rgb(0x98a0a8)}
)

// drawRace shows a metric over the number of callers, a panel for each of the
// five with those of its kind, and PING.
func (r *report) drawRace(title string, m metric, logarithmic bool) *sheet {
	s := &sheet{title: title}
	for _, f := range families {
		p := newPanel(132, f.name)
		drawn := 0
		for _, sub := range r.subjects {
			if !sub.is(f.algorithm) && sub.name != "PING" {
				continue
			}
			l := line{name: sub.name, color: grays[drawn%len(grays)], width: 1.2}
			switch {
			case sub.ours:
				l.color, l.width = f.color, 2
			case sub.floor():
				l.dashes = dashes
			}
			for _, n := range r.callers {
				if v := r.cells.of(cell{r.sites[0], n, sub.name}, m); !math.IsNaN(v) {
					l.points = append(l.points, plotter.XY{X: float64(n), Y: v})
				}
			}
			if len(l.points) > 0 {
				p.lines = append(p.lines, l)
				drawn++
			}
		}
		if drawn > 0 {
			p.axes(r.callers, logarithmic)
			s.panels = append(s.panels, p)
		}
	}
	return s.labelled("callers")
}

// drawGrowth shows curves of Redis time, and of the plain commands where they ran.
func drawGrowth(title, x string, curves []curve, subjects []subject) *sheet {
	p := newPanel(300, "")
	if curves[0].plain != nil {
		curves = append(slices.Clone(curves), plainOf(curves))
	}
	for _, c := range curves {
		l := line{name: c.subject, color: grays[0], width: 1.2}
		if c.subject == plainName {
			l.dashes = dashes
		}
		for _, f := range families {
			if slices.ContainsFunc(subjects, func(s subject) bool { return s.name == c.subject && s.ours && s.is(f.algorithm) }) {
				l.color, l.width = f.color, 2
			}
		}
		for i, x := range c.x {
			l.points = append(l.points, plotter.XY{X: float64(x), Y: c.at(i)})
		}
		p.lines = append(p.lines, l)
	}
	p.axes(curves[0].x, false)
	return (&sheet{title: title, panels: []*panel{p}}).labelled(x)
}

// labelled names the x axis of the last panel.
func (s *sheet) labelled(x string) *sheet {
	if n := len(s.panels); n > 0 {
		s.panels[n-1].X.Label.Text = x
		s.panels[n-1].height += 14
	}
	return s
}

// A picture is a file in img/bench and what it shows.
type picture struct {
	file, alt string
	sheet     *sheet
}

// pictures are those that the figures are there for.
func (r *report) pictures() []picture {
	all := []picture{
		{"throughput.svg", "decisions a second over callers", r.drawRace("Decisions a second, by the number of callers", throughput, false)},
		{"p99.svg", "p99 over callers", r.drawRace("The slowest one in a hundred decisions (p99) in µs, by the number of callers", p99, true)},
		{"cpu.svg", "Redis CPU a decision over callers", r.drawRace("CPU of Redis in µs a decision, by the number of callers", cpu, false)},
	}
	all = slices.DeleteFunc(all, func(p picture) bool { return len(p.sheet.panels) == 0 })
	if len(r.byKeys) > 0 {
		all = append(all, picture{"keys.svg", "Redis time a decision over the number of keys", drawGrowth("Redis time in µs a decision, by the number of keys", "keys", r.byKeys, r.subjects)})
	}
	if len(r.byLimit) > 0 {
		all = append(all, picture{"limit.svg", "Redis time a decision over the limit", drawGrowth("Redis time in µs a decision, by the limit, nine tenths of which are used", "the limit, in units a day", r.byLimit, r.subjects)})
	}
	return all
}

// save writes a picture below a directory.
func (p picture) save(dir string) error {
	var svg bytes.Buffer
	if err := p.sheet.write(&svg); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, p.file), svg.Bytes(), 0o644) //nolint:gosec // a picture, for all to read
}
