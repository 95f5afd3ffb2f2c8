package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
)

func (m *Memory) settings() (Algorithm, Limits) {
	if m == nil {
		return "", nil
	}
	return m.algorithm, m.limits
}

func (m *Memory) group(ctx context.Context, requests []Request, mode mode) ([]Result, error) {
	all, limiters, mode, err := prepareAll[*Memory](ctx, requests, mode)
	if err != nil {
		return nil, err
	}
	for i, l := range limiters {
		for j := range i {
			if !all[i].fixed && !all[j].fixed && l == limiters[j] && memoryName(requests[i].Key) == memoryName(requests[j].Key) {
				return nil, fmt.Errorf("ratelimit: requests %d and %d count the same key %.64q: ask for the sum of their N", j, i, requests[i].Key)
			}
		}
	}
	unlock := lockAll(limiters)
	defer unlock()

	parts, keys := make([]part, 0, len(all)), make([]*memoryKey, 0, len(all))
	for i, l := range limiters {
		if !all[i].fixed {
			now := l.now()
			keys = append(keys, l.find(memoryName(requests[i].Key), now))
			parts = append(parts, part{twin: keys[len(keys)-1].state, now: now, q: all[i].q})
		}
	}
	decideAll(parts, mode)
	j := 0
	for i, l := range limiters {
		if p := &all[i]; !p.fixed {
			l.keep(keys[j], parts[j].now, p.q, parts[j].answer)
			p.result = parts[j].answer.result(p.limit)
			j++
		}
	}
	return results(all), nil
}

// A part is one of the requests that are decided together.
type part struct {
	twin
	now    int64
	q      request
	view   view
	answer answer
}

// decideAll answers all parts: see all.lua.
func decideAll(parts []part, m mode) {
	fit := m == take
	for i := range parts {
		p := &parts[i]
		p.view = p.look(p.now, p.q)
		if p.q.n > p.q.capacity {
			p.answer.retry, fit = never, false
		} else if p.q.n > p.view.free {
			p.answer.retry, fit = p.wait(p.now, p.q, p.view, p.q.n), false
		}
	}
	for i := range parts {
		p, n := &parts[i], int64(0)
		if fit {
			n = p.q.n
		}
		a := p.put(p.now, p.q, p.view, n)
		if a.retry = p.answer.retry; a.retry == 0 {
			a.granted = p.q.n
		}
		a.remaining = max(a.remaining, 0)
		p.answer = a
	}
}

// lockAll locks each of limiters once, all callers in the same order, and
// returns what unlocks them.
func lockAll(limiters []*Memory) (unlock func()) {
	address := func(m *Memory) uintptr { return reflect.ValueOf(m).Pointer() }
	order := slices.Clone(limiters)
	slices.SortFunc(order, func(a, b *Memory) int { return cmp.Compare(address(a), address(b)) })
	order = slices.Compact(order)
	for _, m := range order {
		m.mu.Lock()
	}
	return func() {
		for _, m := range order {
			m.mu.Unlock()
		}
	}
}
