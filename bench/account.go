package main

import (
	"context"
	"runtime"
	"slices"
	"time"
)

// An account is what the turns of a slice add up to.
type account struct {
	tally
	cpu, sent, ran, busy float64 // of the servers: µs, commands, commands, µs
	calls                []uint32
}

// turn is a tenth of d to warm up, then d that counts.
func (a *account) turn(ctx context.Context, s *site, e entrant, l *load, names []string, d time.Duration) error {
	runtime.GC() // nobody pays for another's garbage
	if _, err := l.run(ctx, e.decide, names, d/10); err != nil {
		return err
	}
	was, err := s.stats(ctx)
	if err != nil {
		return err
	}
	t, err := l.run(ctx, e.decide, names, d)
	if err != nil {
		return err
	}
	is, err := s.stats(ctx)
	if err != nil {
		return err
	}
	sent, ran, busy := e.makeup.between(was, is)
	a.cpu += (is.cpu - was.cpu) * 1e6
	a.sent, a.ran, a.busy = a.sent+sent, a.ran+ran, a.busy+busy
	a.decisions, a.refused = a.decisions+t.decisions, a.refused+t.refused
	a.took, a.allocs = a.took+t.took, a.allocs+t.allocs
	for _, calls := range l.calls[:l.callers] {
		a.calls = append(a.calls, calls...)
	}
	return nil
}

func (a *account) sample() sample {
	slices.Sort(a.calls)
	n := float64(a.decisions)
	return sample{
		throughput: n / a.took.Seconds(),
		p50:        quantile(a.calls, 0.5),
		p99:        quantile(a.calls, 0.99),
		p999:       quantile(a.calls, 0.999),
		cpu:        a.cpu / n,
		busy:       a.busy / n,
		sent:       a.sent / n,
		ran:        a.ran / n,
		allocs:     float64(a.allocs) / n,
	}
}
