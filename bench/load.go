package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// A load is callers who decide on random keys, one call after the other each.
type load struct {
	callers int
	keys    int
	cancel  bool       // calls have a context that can be cancelled, which is not free
	calls   [][]uint32 // how long those of the last run took in ns, by caller; kept, so that they cost no allocation
}

// keyName is the name of the i-th key. All have one length, as a server's work
// depends on it.
func keyName(i int) string {
	return "user:" + strconv.Itoa(100_000_000+i)
}

// A tally is what a load has done.
type tally struct {
	decisions, refused int
	took               time.Duration
	allocs             uint64
}

// run lets the callers call for d.
func (l *load) run(ctx context.Context, decide take, names []string, d time.Duration) (tally, error) {
	for len(l.calls) < l.callers {
		l.calls = append(l.calls, nil)
	}
	type end struct {
		refused int
		err     error
	}
	ends := make([]end, l.callers)
	start := make(chan struct{})
	var ready, done sync.WaitGroup
	ready.Add(l.callers)
	for i := range l.callers {
		done.Go(func() {
			ctx := ctx
			if !l.cancel {
				ctx = context.WithoutCancel(ctx)
			}
			random := rand.New(rand.NewPCG(uint64(i), uint64(d))) //nolint:gosec // the same for every subject
			took := l.calls[i][:0]
			ready.Done()
			<-start
			before := time.Now()
			for until := before.Add(d); before.Before(until); {
				allowed, err := decide(ctx, l.name(names, random), 1)
				if err != nil {
					ends[i].err = err
					break
				}
				if !allowed {
					ends[i].refused++
				}
				now := time.Now()
				took = append(took, uint32(min(now.Sub(before), 4*time.Second))) //nolint:gosec // 4 s fit
				before = now
			}
			l.calls[i] = took
		})
	}
	ready.Wait()
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	began := time.Now()
	close(start)
	done.Wait()
	t := tally{took: time.Since(began)}
	runtime.ReadMemStats(&is)

	t.allocs = is.Mallocs - was.Mallocs
	for i, e := range ends {
		if e.err != nil {
			return t, e.err
		}
		t.refused += e.refused
		t.decisions += len(l.calls[i])
	}
	return t, nil
}

// name is that of a random key: made beforehand, but where there are too many.
func (l *load) name(names []string, random *rand.Rand) string {
	if len(names) > 0 {
		return names[random.IntN(len(names))]
	}
	return keyName(random.IntN(l.keys))
}

// keyNames are the first n keys.
func keyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = keyName(i)
	}
	return names
}

// prove requires that a limiter limits: what does not is no peer.
func prove(ctx context.Context, open opener, s *site, name string) error {
	const limit = 3
	decide, err := open(ctx, s, limit)
	if err != nil {
		return err
	}
	for i := range limit + 1 {
		allowed, err := decide(ctx, "proof", 1)
		if err != nil {
			return err
		}
		if allowed != (i < limit) {
			return fmt.Errorf("%s, with a limit of %d: call %d is allowed: %t", name, limit, i+1, allowed)
		}
	}
	return nil
}
