package main

import (
	"bytes"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const width = vg.Length(600) // points: 800 px

var (
	ink   = rgb(0x24292f)
	faint = rgb(0x57606a)
	hair  = rgb(0xe3e6ea)
)

func rgb(hex uint32) color.Color {
	return color.RGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 255} //nolint:gosec // a byte each
}

func style(size font.Length, c color.Color, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = 3 // bold
	}
	return text.Style{Color: c, Font: f, Handler: plot.DefaultTextHandler, YAlign: draw.YCenter}
}

// A sheet is panels one below the other, on white.
type sheet struct {
	title  string
	panels []*panel
}

// A panel is lines over a logarithmic x axis, each named at its right end.
type panel struct {
	*plot.Plot
	name   string
	height vg.Length
	lines  []line
}

type line struct {
	name   string
	color  color.Color
	width  vg.Length
	dashes []vg.Length
	points plotter.XYs
}

func newPanel(height vg.Length, name string) *panel {
	p := &panel{Plot: plot.New(), name: name, height: height}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Padding = 0
		axis.Color, axis.Tick.Color = hair, hair
		axis.Tick.Length = 3
		axis.Tick.Label.Color = faint
		axis.Tick.Label.Font = style(8.5, faint, false).Font
		axis.Label.TextStyle.Font = style(9, faint, false).Font
		axis.Label.TextStyle.Color = faint
	}
	p.X.Scale = plot.LogScale{}
	return p
}

// axes are ticks at each x, and at round numbers of y: from 0 up, or by tens.
func (p *panel) axes(xs []int, logarithmic bool) {
	low, high := math.Inf(1), 0.0
	for _, l := range p.lines {
		for _, pt := range l.points {
			low, high = min(low, pt.Y), max(high, pt.Y)
		}
	}
	var ticks plot.ConstantTicks
	for _, x := range xs {
		ticks = append(ticks, plot.Tick{Value: float64(x), Label: short(float64(x))})
	}
	p.X.Min, p.X.Max, p.X.Tick.Marker = float64(xs[0]), float64(xs[len(xs)-1]), ticks
	if len(xs) == 1 {
		p.X.Max = 2 * p.X.Min
	}
	ticks, p.Y.Min = nil, 0
	if logarithmic {
		p.Y.Scale = plot.LogScale{}
		p.Y.Min, p.Y.Max = low/1.3, high*1.3
		for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high*1.3; decade *= 10 {
			for _, digit := range []float64{1, 2, 5} {
				ticks = append(ticks, plot.Tick{Value: digit * decade, Label: short(digit * decade)})
			}
		}
	} else {
		p.Y.Max = high * 1.08
		step := math.Pow(10, math.Floor(math.Log10(high)))
		for high/step < 4 {
			step /= 2
		}
		for y := 0.0; y <= p.Y.Max; y += step {
			ticks = append(ticks, plot.Tick{Value: y, Label: short(y)})
		}
	}
	p.Y.Tick.Marker = slices.DeleteFunc(ticks, func(t plot.Tick) bool { return t.Value < p.Y.Min || t.Value > p.Y.Max })
}

// short writes 1000 as 1k.
func short(v float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e6, "M"}, {1e3, "k"}} {
		if v >= unit.of {
			return strconv.FormatFloat(v/unit.of, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// compose puts lines, grid and names in place: names beside the ends of their
// lines, moved apart where they would meet.
func (p *panel) compose() {
	for _, t := range p.Y.Tick.Marker.Ticks(0, 0) {
		p.Add(&plotter.Line{
			XYs:       plotter.XYs{{X: p.X.Min, Y: t.Value}, {X: p.X.Max, Y: t.Value}},
			LineStyle: draw.LineStyle{Color: hair, Width: 0.5},
		})
	}
	var ends names
	for _, l := range p.lines {
		if len(l.points) == 0 {
			continue
		}
		p.Add(&plotter.Line{XYs: l.points, LineStyle: draw.LineStyle{Color: l.color, Width: l.width, Dashes: l.dashes}})
		ends = append(ends, l)
	}
	p.Add(ends, title(p.name))
}

// write draws the sheet.
func (s *sheet) write(w io.Writer) error {
	const titleHeight, nameHeight, gap, margin, forNames = 22, 18, 8, 8, 92
	height := vg.Length(titleHeight + margin)
	for _, p := range s.panels {
		height += p.height + gap
	}
	canvas := vgsvg.New(width, height)
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Path())
	heading := style(11.5, ink, true)
	heading.YAlign = draw.YTop
	c.FillText(heading, vg.Point{X: margin, Y: height - 7}, s.title)

	var left vg.Length // where the data of all panels begin
	for _, p := range s.panels {
		p.BackgroundColor = nil
		p.compose()
		left = max(left, p.DataCanvas(c).Min.X)
	}
	top := height - titleHeight
	for _, p := range s.panels {
		area := c
		area.Rectangle = vg.Rectangle{Min: vg.Point{X: margin, Y: top - p.height}, Max: vg.Point{X: width - forNames - margin, Y: top - nameHeight}}
		area.Min.X += left - p.DataCanvas(c).Min.X
		p.Draw(area)
		top -= p.height + gap
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	named := svg.Bytes()
	for old, to := range map[string]string{ // fonts of the same widths, for those who have not got this one
		"font-family:Liberation Sans;":                 "font-family:Arial,Helvetica,'Liberation Sans',sans-serif;",
		"font-variant:normal;":                         "",
		"font-style:normal;":                           "",
		"font-weight:normal;":                          "",
		"xmlns:xlink=\"http://www.w3.org/1999/xlink\"": "",
	} {
		named = bytes.ReplaceAll(named, []byte(old), []byte(to))
	}
	_, err := w.Write(named)
	return err
}
