package main

import (
	"bytes"
	"image/color"
	"io"
	"math"
	"strconv"
	"time"

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
	gray  = rgb(0xc4c9cf) // what was refused
	shade = rgb(0xf0f1f3)
	red   = rgb(0xb3261e) // a limit
)

func rgb(hex uint32) color.Color {
	return color.RGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 255}
}

func style(size font.Length, c color.Color, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = 3 // bold
	}
	return text.Style{Color: c, Font: f, Handler: plot.DefaultTextHandler, YAlign: draw.YTop}
}

// A sheet is panels one below the other, on white.
type sheet struct {
	title  string
	panels []*panel
}

// A panel is a plot of some height.
type panel struct {
	*plot.Plot
	height vg.Length
}

// newPanel has time in seconds to the right, and units upward to most.
func newPanel(height vg.Length, until time.Duration, most float64) *panel {
	p := &panel{plot.New(), height}
	p.X.Min, p.X.Max = 0, until.Seconds()
	p.Y.Min, p.Y.Max = 0, most
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Padding = 0
		axis.Color, axis.Tick.Color = hair, hair
		axis.Tick.Length = 3
		axis.Tick.Label.Color = faint
		axis.Tick.Label.Font = style(8.5, faint, false).Font
		axis.Label.TextStyle.Font = style(9, faint, false).Font
		axis.Label.TextStyle.Color = faint
	}
	p.X.Tick.Marker = plot.ConstantTicks{}
	return p
}

// every puts ticks with numbers on an axis.
func every(step, to float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for v := 0.0; v <= to; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return ticks
}

// seconds numbers the time axis, which only the last panel does.
func (p *panel) seconds(step float64) {
	p.X.Tick.Marker = every(step, p.X.Max)
	p.X.Label.Text = "seconds"
	p.height += 26
}

// units numbers the other axis and draws a line at each number.
func (p *panel) units(step float64) {
	p.Y.Tick.Marker = every(step, p.Y.Max)
	for v := step; v <= p.Y.Max; v += step {
		p.line(hair, 0.5, nil, pt(p.X.Min, v), pt(p.X.Max, v))
	}
}

type point = plotter.XY

func pt(x, y float64) point { return point{X: x, Y: y} }

// line draws a line through points.
func (p *panel) line(c color.Color, width vg.Length, dashes []vg.Length, points ...point) {
	p.Add(&plotter.Line{
		XYs:       points,
		LineStyle: draw.LineStyle{Color: c, Width: width, Dashes: dashes},
	})
}

// steps draws looks as a line that goes up and down in steps, until the end.
func (p *panel) steps(c color.Color, width vg.Length, dashes []vg.Length, looks []look) {
	var points []point
	last := math.NaN()
	for _, l := range looks {
		y := float64(l.remaining)
		if y == last || l.at.Seconds() > p.X.Max {
			continue
		}
		if len(points) > 0 {
			points = append(points, pt(l.at.Seconds(), last))
		}
		points = append(points, pt(l.at.Seconds(), y))
		last = y
	}
	p.line(c, width, dashes, append(points, pt(p.X.Max, last))...)
}

// A label is text at a place of a panel, in its own units, moved by points.
type label struct {
	at     point
	dx, dy vg.Length
	style  text.Style
	text   string
}

// Plot makes label a plot.Plotter.
func (l *label) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	c.FillText(l.style, vg.Point{X: x(l.at.X) + l.dx, Y: y(l.at.Y) + l.dy}, l.text)
}

// name writes what a panel shows above its left, and a remark above its right.
func (p *panel) name(c color.Color, name, remark string) {
	s := style(10, c, true)
	s.YAlign = draw.YBottom
	p.Add(&label{pt(p.X.Min, p.Y.Max), 0, 3, s, name})
	s = style(9, faint, false)
	s.XAlign, s.YAlign = draw.XRight, draw.YBottom
	p.Add(&label{pt(p.X.Max, p.Y.Max), 0, 3, s, remark})
}

// A band shades a panel between two places of its x axis.
type band struct{ from, to float64 }

// Plot makes band a plot.Plotter.
func (b band) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	c.SetColor(shade)
	c.Fill(vg.Rectangle{Min: vg.Point{X: x(b.from), Y: c.Min.Y}, Max: vg.Point{X: x(b.to), Y: c.Max.Y}}.Path())
}

// bars are numbers of calls, in bins of one width: what was allowed, and on
// top of it what was refused.
type bars struct {
	bin     float64
	allowed []int
	refused []int
	color   color.Color
}

func newBars(r *record, bin, until time.Duration) bars {
	n := int(until / bin)
	b := bars{bin.Seconds(), make([]int, n), make([]int, n), r.color}
	for _, c := range r.calls {
		if c.allowed {
			b.allowed[c.at/bin]++
		} else {
			b.refused[c.at/bin]++
		}
	}
	return b
}

// Plot makes bars a plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var allowed, refused vg.Path
	add := func(path *vg.Path, bin, from, to int) {
		if from == to {
			return
		}
		left, right := x((float64(bin)+0.08)*b.bin), x((float64(bin)+0.92)*b.bin)
		low, high := y(float64(from)), y(float64(to))
		path.Move(vg.Point{X: left, Y: low})
		path.Line(vg.Point{X: left, Y: high})
		path.Line(vg.Point{X: right, Y: high})
		path.Line(vg.Point{X: right, Y: low})
		path.Close()
	}
	for i, n := range b.allowed {
		add(&allowed, i, 0, n)
		add(&refused, i, n, n+b.refused[i])
	}
	c.SetColor(gray)
	c.Fill(refused)
	c.SetColor(b.color)
	c.Fill(allowed)
}

// write draws the sheet.
func (s *sheet) write(w io.Writer) error {
	const titleHeight, nameHeight, gap, margin = 22, 16, 8, 8
	height := vg.Length(titleHeight + margin)
	for _, p := range s.panels {
		height += p.height + gap
	}
	canvas := vgsvg.New(width, height)
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Path())
	c.FillText(style(11.5, ink, true), vg.Point{X: margin, Y: height - 7}, s.title)

	// The data of all panels begin and end at the same x.
	var left, right vg.Length
	for _, p := range s.panels {
		p.BackgroundColor = nil
		data := p.DataCanvas(c)
		left, right = max(left, data.Min.X), max(right, width-data.Max.X)
	}
	top := height - titleHeight
	for _, p := range s.panels {
		area := c
		area.Rectangle = vg.Rectangle{Min: vg.Point{X: 0, Y: top - p.height}, Max: vg.Point{X: width, Y: top - nameHeight}}
		data := p.DataCanvas(area)
		area.Min.X += left - data.Min.X + margin
		area.Max.X -= right - (width - data.Max.X) + margin
		p.Draw(area)
		top -= p.height + gap
	}

	// Fonts of the same widths, for those who have not got this one.
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	named := svg.Bytes()
	for old, to := range map[string]string{
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
