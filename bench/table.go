package main

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// A table is rows of Markdown, the first of which is the head. The first column
// is to the left, the others to the right.
type table [][]string

func (t *table) row(cells ...string) { *t = append(*t, cells) }

// String aligns the columns, to be read as text too.
func (t table) String() string {
	if len(t) < 2 {
		return ""
	}
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text), 2)
		}
	}
	var b strings.Builder
	for at, row := range t {
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if i == 0 {
				b.WriteString("| " + text + pad + " |")
			} else {
				b.WriteString(" " + pad + text + " |")
			}
		}
		b.WriteString("\n")
		if at == 0 {
			for i, width := range widths {
				if i == 0 {
					b.WriteString("|" + strings.Repeat("-", width+2) + "|")
				} else {
					b.WriteString(strings.Repeat("-", width+1) + ":|")
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// figure has three digits or so; what is not known is a dash.
func figure(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v >= 100_000:
		return fmt.Sprintf("%.0fk", v/1000)
	case v >= 10_000:
		return fmt.Sprintf("%.1fk", v/1000)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func callersText(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}
