package main

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A title is written above the left end of a panel.
type title string

// Plot makes title a plot.Plotter.
func (t title) Plot(c draw.Canvas, _ *plot.Plot) {
	s := style(10, ink, true)
	s.YAlign = draw.YBottom
	c.FillText(s, vg.Point{X: c.Min.X, Y: c.Max.Y + 4}, string(t))
}

// names are lines whose names are to be written.
type names []line

// Plot makes names a plot.Plotter.
func (n names) Plot(c draw.Canvas, p *plot.Plot) {
	const apart = vg.Length(10.5)
	_, y := p.Transforms(&c)
	sorted := slices.Clone(n)
	end := func(l line) vg.Length { return y(l.points[len(l.points)-1].Y) }
	slices.SortFunc(sorted, func(a, b line) int { return int(1000 * (end(a) - end(b))) })
	places := make([]vg.Length, len(sorted))
	for i, l := range sorted {
		places[i] = end(l)
		if i > 0 {
			places[i] = max(places[i], places[i-1]+apart)
		}
	}
	// Those that were pushed over the top come down again, and push in turn.
	limit := c.Max.Y
	for i := len(places) - 1; i >= 0; i-- {
		places[i] = min(places[i], limit)
		limit = places[i] - apart
	}
	for i, l := range sorted {
		s := style(9, l.color, l.width > 1.5)
		c.FillText(s, vg.Point{X: c.Max.X + 5, Y: places[i]}, l.name)
	}
}
