package main

import (
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/plot/vg"

	"github.com/weirgo/ratelimit"
)

var dashes = []vg.Length{4, 2}

// drawTraffic shows the same traffic through all five.
func drawTraffic() (*sheet, error) {
	const until = 60 * time.Second
	limit := ratelimit.Per(20, 10*time.Second)
	traffic := script{
		calls: slices.Concat(
			steady(0, 10*time.Second, time.Second),
			steady(13*time.Second, 16*time.Second, 100*time.Millisecond),
			steady(23*time.Second, 43*time.Second, 250*time.Millisecond),
			steady(52*time.Second, 55*time.Second, 100*time.Millisecond),
		),
		limit: always(limit),
		until: until,
	}
	records, err := play(traffic, kinds...)
	if err != nil {
		return nil, err
	}
	s := &sheet{title: fmt.Sprintf("The same %d calls through all five, allowed in color and refused in gray", len(traffic.calls))}
	for i, r := range records {
		p := newPanel(66, until, 10.5)
		p.units(5)
		p.Add(newBars(r, time.Second, until))
		p.line(red, 1, dashes, pt(0, 2), pt(until.Seconds(), 2))
		p.name(r.color, r.name, fmt.Sprintf("%d allowed, %d refused", r.allowed(), len(r.calls)-r.allowed()))
		if i == len(records)-1 {
			p.seconds(10)
			p.X.Label.Text = "seconds; a bar is the calls of one second; dashed: the rate, 20 in 10 s"
		}
		s.panels = append(s.panels, p)
	}
	return s, nil
}

const spikeFrom, spikeTo = 9 * time.Second, 11 * time.Second

// spike is 40 calls where two fixed windows meet, the first of which begins
// with a call at 0 s.
var spike = script{
	calls: slices.Concat(burst(0, 1), steady(spikeFrom, spikeTo, 50*time.Millisecond)),
	limit: always(ratelimit.Per(20, 10*time.Second)),
	until: 22 * time.Second,
}

// drawBoundary shows how many calls of a spike each limiter lets through.
func drawBoundary() (*sheet, error) {
	records, err := play(spike, kinds...)
	if err != nil {
		return nil, err
	}
	s := &sheet{title: "A spike where two windows meet: calls allowed in the last 10 seconds"}
	for i, r := range records {
		looks := r.within(10 * time.Second)
		most := slices.MaxFunc(looks, func(a, b look) int { return a.remaining - b.remaining })
		p := newPanel(62, spike.until, 42)
		p.Add(band{spikeFrom.Seconds(), spikeTo.Seconds()})
		p.units(20)
		p.line(red, 1, dashes, pt(0, 20), pt(p.X.Max, 20))
		p.steps(r.color, 2, nil, looks)
		p.name(r.color, r.name, fmt.Sprintf("at most %d in 10 s", most.remaining))
		if i == len(records)-1 {
			p.seconds(5)
			p.X.Label.Text = "seconds; shaded: 40 calls from 9 s to 11 s, after one at 0 s; dashed: the limit, 20 in 10 s"
		}
		s.panels = append(s.panels, p)
	}
	return s, nil
}

// drawChange shows what a limit that is raised, and then cut, does to what can
// be taken.
func drawChange() (*sheet, error) {
	const until, raised, cut = 34 * time.Second, 6 * time.Second, 17 * time.Second
	limit := func(now time.Duration) ratelimit.Limit {
		units := 20
		switch {
		case now >= cut:
			units = 10
		case now >= raised:
			units = 40
		}
		return ratelimit.Per(units, 10*time.Second).WithBurst(units)
	}
	records, err := play(script{
		calls: slices.Concat(
			steady(500*time.Millisecond, until, 2*time.Second),
			burst(4*time.Second, 15),
			burst(14*time.Second, 25),
		),
		limit: func(_ kind, now time.Duration) ratelimit.Limit { return limit(now) },
		until: until,
		watch: 50 * time.Millisecond,
	}, kinds...)
	if err != nil {
		return nil, err
	}
	s := &sheet{title: "What remains while the limit changes: 20 in 10 s, from 6 s on 40, from 17 s on 10"}
	for i, r := range records {
		p := newPanel(66, until, 44)
		p.units(20)
		var capacity []look
		for _, l := range r.looks {
			capacity = append(capacity, look{l.at, limit(l.at).Burst})
		}
		p.steps(red, 1, dashes, capacity)
		p.steps(r.color, 2, nil, r.looks)
		p.name(r.color, r.name, fmt.Sprintf("%d allowed, %d refused", r.allowed(), len(r.calls)-r.allowed()))
		if i == len(records)-1 {
			p.seconds(5)
			p.X.Label.Text = "seconds; a call each 2 s, 15 at once at 4 s, 25 at once at 14 s; dashed: the limit"
		}
		s.panels = append(s.panels, p)
	}
	return s, nil
}

// drawOne shows what one kind counts, and what it decides by that.
func drawOne(k kind) (*sheet, error) {
	const until = 40 * time.Second
	limit, shown := ratelimit.Per(10, 10*time.Second), "10 in 10 s"
	what, left := "units taken that count", false
	switch k.algorithm {
	case ratelimit.TokenBucket:
		what, left = "whole tokens in the bucket", true
	case ratelimit.LeakyBucket:
		limit, shown = limit.WithBurst(5), "10 in 10 s, burst 5"
		what = "level of the bucket, rounded up"
	case ratelimit.FixedWindow:
		what = "units taken in the window"
	case ratelimit.SlidingWindowLog:
		what = "units taken in the last 10 s"
	case ratelimit.SlidingWindowCounter:
		what = "units taken in the last 10 s, by estimate"
	}
	capacity := limit.Rate
	if limit.Burst > 0 {
		capacity = limit.Burst
	}
	records, err := play(script{
		calls: slices.Concat(
			burst(2500*time.Millisecond, 6),
			steady(7*time.Second, 25*time.Second, 500*time.Millisecond),
			burst(34500*time.Millisecond, 14),
		),
		limit: always(limit),
		until: until,
		watch: 50 * time.Millisecond,
	}, k)
	if err != nil {
		return nil, err
	}
	r := records[0]

	calls := newPanel(84, until, 15)
	calls.units(5)
	calls.Add(newBars(r, time.Second, until))
	calls.name(ink, "calls in each second", fmt.Sprintf("%d allowed, %d refused", r.allowed(), len(r.calls)-r.allowed()))

	state := newPanel(96, until, float64(capacity)*1.15)
	state.units(5)
	if !left {
		for i := range r.looks {
			r.looks[i].remaining = capacity - r.looks[i].remaining
		}
	}
	state.line(red, 1, dashes, pt(0, float64(capacity)), pt(until.Seconds(), float64(capacity)))
	state.steps(r.color, 2, nil, r.looks)
	state.name(ink, what, "")
	state.seconds(5)
	return &sheet{
		title:  fmt.Sprintf("%s, %s: allowed in color, refused in gray", k.name, shown),
		panels: []*panel{calls, state},
	}, nil
}
