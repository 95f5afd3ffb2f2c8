package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// An entrant is a subject at a site.
type entrant struct {
	subject
	decide take
	makeup makeup
}

// A plan is how much is measured.
type plan struct {
	rounds int
	slice  time.Duration
	keys   int                              // over which callers spread
	cancel bool                             // calls have a context that can be cancelled
	log    func(format string, args ...any) // progress
}

const (
	dayLimit  = 10_000 // units a day: more than a run takes of a key, so that nothing is refused
	prefilled = 100    // units taken of each beforehand: nothing is measured on a key that does not exist
)

// enter opens the subjects that can be at a site.
func enter(ctx context.Context, s *site, of []subject, limit int, makeups map[string]makeup) ([]entrant, error) {
	var in []entrant
	for _, sub := range of {
		decide, err := sub.open(ctx, s, limit)
		if errors.Is(err, errNoCluster) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sub.name, err)
		}
		in = append(in, entrant{sub, decide, makeups[sub.name]})
	}
	return in, nil
}

// learn proves each subject and learns which commands it uses.
func learn(ctx context.Context, s *site, of []subject) (map[string]makeup, error) {
	makeups := map[string]makeup{}
	for _, sub := range of {
		if !sub.floor() {
			if err := prove(ctx, sub.open, s, sub.name); err != nil {
				return nil, err
			}
		}
		decide, err := sub.open(ctx, s, dayLimit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sub.name, err)
		}
		if _, err = decide(ctx, "first", 1); err != nil { // from here on servers know the script
			return nil, fmt.Errorf("%s: %w", sub.name, err)
		}
		makeups[sub.name], err = s.watch(ctx, func() error {
			for range 100 {
				if _, err := decide(ctx, "learn", 1); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sub.name, err)
		}
		if err := s.flush(ctx); err != nil {
			return nil, err
		}
	}
	return makeups, nil
}

// race measures entrants under each number of callers, in rounds.
func race(ctx context.Context, s *site, in []entrant, callers []int, p plan) (cells, int, error) {
	found, refused := cells{}, 0
	names := keyNames(p.keys)
	for _, e := range in {
		if err := fill(ctx, e, names, prefilled); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	for _, n := range callers {
		l := &load{callers: n, keys: len(names), cancel: p.cancel}
		for round := range p.rounds {
			p.log("%s: %s, round %d of %d", s, callersText(n), round+1, p.rounds)
			accounts, err := p.round(ctx, s, in, l, names)
			if err != nil {
				return nil, 0, err
			}
			for i, a := range accounts {
				at := cell{s.String(), n, in[i].name}
				found[at] = append(found[at], a.sample())
				refused += a.refused
			}
		}
	}
	return found, refused, nil
}

// turnTime is about how long a turn is. Within one a lone caller is often as
// fast as the cores that it and the server happen to be on let it be, so a slice
// is of many.
const turnTime = 25 * time.Millisecond

// round gives each entrant its slice, in turns, whose order is drawn anew.
func (p plan) round(ctx context.Context, s *site, in []entrant, l *load, names []string) ([]account, error) {
	accounts := make([]account, len(in))
	turns := max(1, int(p.slice/turnTime))
	for range turns {
		for _, i := range rand.Perm(len(in)) {
			if err := accounts[i].turn(ctx, s, in[i], l, names, p.slice/time.Duration(turns)); err != nil {
				return nil, fmt.Errorf("%s, %s, %s: %w", in[i].name, s, callersText(l.callers), err)
			}
		}
	}
	return accounts, nil
}

// fill takes n units of each key.
func fill(ctx context.Context, e entrant, names []string, n int) error {
	const callers = 64
	errs := make([]error, callers)
	var done sync.WaitGroup
	for i := range callers {
		done.Go(func() {
			for at := i; at < len(names) && errs[i] == nil; at += callers {
				allowed, err := e.decide(ctx, names[at], n)
				if err == nil && !allowed {
					err = fmt.Errorf("%d units are refused to a new key", n)
				}
				errs[i] = err
			}
		})
	}
	done.Wait()
	return errors.Join(errs...)
}
