package ratelimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const (
	callers = 64
	budget  = 50 * time.Millisecond // of a call
	grace   = 10 * time.Millisecond // by which it may overrun
	// Between two calls of a caller: 3,200 calls a second in all, which two cores carry with the race
	// detector on. If they were full, the delays would be theirs.
	pace = 20 * time.Millisecond
)

// A faultCall is a call under a fault. Each has a key of its own, so that what the key has used in the
// end is what this call has taken.
type faultCall struct {
	limiter int
	key     string
	err     error
	late    time.Duration // after the budget; negative if in time
	wrong   string        // what it must not have answered
}

// A load is callers, and beside each a plain timer that waits for as long as a call may last.
type load struct {
	limiters []*Redis
	stopped  chan struct{}
	running  sync.WaitGroup
	calls    [callers][]faultCall
	timers   [callers][]time.Duration // how late they were
}

func startLoad(t *testing.T, limiters []*Redis) *load {
	l := &load{limiters: limiters, stopped: make(chan struct{})}
	for i := range callers {
		l.running.Go(func() {
			for n := 0; l.pause(); n++ {
				l.calls[i] = append(l.calls[i], l.call(t.Context(), i%len(limiters), strconv.Itoa(i)+"-"+strconv.Itoa(n)))
			}
		})
		l.running.Go(func() {
			for l.pause() {
				l.timers[i] = append(l.timers[i], timer(t.Context()))
			}
		})
	}
	return l
}

// pause keeps the pace, with chance in it so that callers do not fall in step.
func (l *load) pause() bool {
	select {
	case <-l.stopped:
		return false
	case <-time.After(pace/2 + rand.N(pace)):
		return true
	}
}

func (l *load) call(ctx context.Context, limiter int, key string) faultCall {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	r, began := l.limiters[limiter], time.Now()
	result, err := r.Allow(ctx, key)
	c := faultCall{limiter: limiter, key: key, err: err, late: time.Since(began) - budget}
	left := faultLimit.capacity(r.algorithm) - 1
	switch {
	case err == nil && (!result.Allowed || result.Remaining != left):
		c.wrong = fmt.Sprintf("%s: a first call is answered %+v", r.algorithm, result)
	case err != nil && (result != Result{} || why(err) == ""):
		c.wrong = fmt.Sprintf("%+v with the error %T: %v", result, err, err)
	}
	return c
}

func timer(ctx context.Context) (late time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	began := time.Now()
	<-ctx.Done()
	return time.Since(began) - budget
}

func (l *load) stop() []faultCall {
	close(l.stopped)
	l.running.Wait()
	return slices.Concat(l.calls[:]...)
}

// An outcome is what became of the calls under a fault.
type outcome struct {
	name           string
	calls, decided int
	why            map[string]int // the others, by the kind of their error
	charged        int            // of the others
	late, timers   delays         // of the calls, and of plain timers
	recovered      time.Duration  // after the fault, until all five decided
}

// A delays is the worst of many, and what 99% stay within.
type delays struct{ worst, most time.Duration }

func latenessOf(late []time.Duration) delays {
	slices.Sort(late)
	return delays{max(0, late[len(late)-1]), max(0, late[len(late)*99/100])}
}

func (l delays) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	return fmt.Sprintf("%v (99%%: %v)", round(l.worst), round(l.most))
}

func (o *outcome) add(c faultCall) {
	o.calls++
	if c.err == nil {
		o.decided++
	} else {
		o.why[why(c.err)]++
	}
}

// account looks at each call's own key: a decided call has taken its unit once, any other at most once.
func (s *scene) account(t *testing.T, calls []faultCall, o *outcome) {
	t.Helper()
	limiters := s.limitersOf(t, newClient(t, &redis.Options{Addr: s.server.Addr()}))
	taken := make([]int, len(calls))
	var peeks sync.WaitGroup
	for first := range callers {
		peeks.Go(func() {
			for i := first; i < len(calls); i += callers {
				r := limiters[calls[i].limiter]
				result, err := r.Peek(t.Context(), calls[i].key)
				if err != nil {
					t.Error(err)
					return
				}
				taken[i] = faultLimit.capacity(r.algorithm) - result.Remaining
			}
		})
	}
	peeks.Wait()
	for i, c := range calls {
		if c.err == nil {
			require.Equal(t, 1, taken[i], "a call that was decided")
			continue
		}
		require.LessOrEqual(t, taken[i], 1, "a call that ended in: %v", c.err)
		o.charged += taken[i]
	}
}

func (o outcome) String() string {
	return fmt.Sprintf("| %s | calls %d | decided %d | errors %d %v, %d of them charged | worst delays %v, of plain timers %v | decides again after %v | charged more than once: 0 |",
		o.name, o.calls, o.decided, o.calls-o.decided, o.why, o.charged,
		o.late, o.timers, o.recovered.Round(time.Millisecond))
}
