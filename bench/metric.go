package main

import (
	"math"
	"slices"
)

// A metric is what is measured of a subject in a slice.
type metric int

const (
	throughput metric = iota // decisions a second
	p50                      // µs
	p99                      // µs
	p999                     // µs
	cpu                      // µs of the servers' CPU, user and system, a decision
	busy                     // µs that servers spent in commands, a decision
	sent                     // commands that servers were sent, a decision
	ran                      // commands that servers ran, those in scripts too, a decision
	allocs                   // of the client, a decision
	metrics
)

var metricNames = [metrics]string{
	"throughput", "p50", "p99", "p99.9", "Redis CPU", "Redis time", "commands sent", "commands run", "allocations",
}

func (m metric) String() string { return metricNames[m] }

// A sample is what one slice has found. What a site can't tell is NaN.
type sample [metrics]float64

// better tells how many times as good as b a is in a metric.
func (m metric) better(a, b float64) float64 {
	if m == throughput {
		return a / b
	}
	return b / a
}

// median is NaN for none, and leaves NaNs out.
func median(of []float64) float64 {
	sorted := slices.DeleteFunc(slices.Clone(of), math.IsNaN)
	slices.Sort(sorted)
	n := len(sorted)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return sorted[n/2]
	default:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
}

// quantile is, in µs, the least of sorted ns that a share q of them does not exceed.
func quantile(sorted []uint32, q float64) float64 {
	return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]) / 1e3
}

// A cell is where samples belong: a subject at a site under some callers.
type cell struct {
	site    string
	callers int
	subject string
}

// cells are the samples of each cell, one a round.
type cells map[cell][]sample

// of is the median of a metric over the rounds.
func (c cells) of(at cell, m metric) float64 {
	var values []float64
	for _, s := range c[at] {
		values = append(values, s[m])
	}
	return median(values)
}

// lead is how many times as good as another a subject is: the median of what
// each round says, as the machine may be slower in one round than in the next.
func (c cells) lead(at cell, other string, m metric) float64 {
	a, b := c[at], c[cell{at.site, at.callers, other}]
	var ratios []float64
	for i := range min(len(a), len(b)) {
		ratios = append(ratios, m.better(a[i][m], b[i][m]))
	}
	return median(ratios)
}
