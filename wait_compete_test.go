package ratelimit

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A slowLimiter counts the calls, and makes each take about the time of a trip.
type slowLimiter struct {
	Limiter
	trip  time.Duration
	calls atomic.Int64
}

func (s *slowLimiter) AllowN(ctx context.Context, key string, n int) (Result, error) {
	s.calls.Add(1)
	s.travel()
	defer s.travel()
	return s.Limiter.AllowN(ctx, key, n)
}

func (s *slowLimiter) travel() {
	if s.trip > 0 {
		time.Sleep(s.trip/4 + rand.N(s.trip/2))
	}
}

// A competition is waiters that wait at the same time, and what they got.
type competition struct {
	Waiters int
	Lasting time.Duration // how long they wait again and again; 0: each waits once

	Waits []time.Duration // that ended with a unit
	Cut   []time.Duration // that the end cut off
	Calls int64           // of the limiter
}

func (c *competition) run(ctx context.Context, l *slowLimiter) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.Lasting > 0 {
		time.AfterFunc(c.Lasting, cancel)
	}
	var mu sync.Mutex
	var failure error
	wait := func() (again bool) {
		began := time.Now()
		_, err := Wait(ctx, l, "key")
		mu.Lock()
		defer mu.Unlock()
		switch took := time.Since(began); {
		case err == nil:
			c.Waits = append(c.Waits, took)
			return c.Lasting > 0
		case ctx.Err() == nil:
			failure = err
		default:
			c.Cut = append(c.Cut, took)
		}
		return false
	}
	var wg sync.WaitGroup
	for range c.Waiters {
		wg.Go(func() {
			for wait() {
			}
		})
	}
	wg.Wait()
	c.Calls = l.calls.Load()
	return failure
}

func (c *competition) callsPerUnit() float64 { return float64(c.Calls) / float64(len(c.Waits)) }

func (c *competition) longest() time.Duration { return slices.Max(slices.Concat(c.Waits, c.Cut)) }

// 50 waiters, again and again for 30 s, on a limiter that answers within some
// 300 µs: 10 a second are admitted, and a fair wait would be 5 s.
func TestWaitCompetition(t *testing.T) {
	t.Parallel()
	const waiters, fair = 50, 5 * time.Second
	eachMemory(t, PerSecond(10), func(t *testing.T, m *Memory) {
		bound := 3 * fair
		if m.algorithm == FixedWindow || m.algorithm == SlidingWindowLog {
			bound = 4 * fair // the units come in bursts: chances are fewer, and fall to the young as well
		}
		longest := Never
		for range 3 { // chance may be unkind once
			require.NoError(t, m.Reset(t.Context(), "key"))
			l := &slowLimiter{Limiter: m, trip: 300 * time.Microsecond}
			c := competition{Waiters: waiters, Lasting: 30 * time.Second}
			require.NoError(t, c.run(t.Context(), l))
			require.GreaterOrEqual(t, len(c.Waits), 290)
			require.LessOrEqual(t, len(c.Waits), 310) // what the bucket held at first included
			require.Less(t, c.callsPerUnit(), 22.0)
			longest = min(longest, c.longest())
		}
		require.LessOrEqual(t, longest, bound)
	})
}

// A few waiters need few calls, and waste little.
func TestWaitCompetitionOfTwo(t *testing.T) {
	t.Parallel()
	eachMemory(t, PerSecond(10), func(t *testing.T, m *Memory) {
		l := &slowLimiter{Limiter: m, trip: 300 * time.Microsecond}
		c := competition{Waiters: 2, Lasting: 30 * time.Second}
		require.NoError(t, c.run(t.Context(), l))
		require.GreaterOrEqual(t, len(c.Waits), 260)
		require.Less(t, c.callsPerUnit(), 3.5)
		require.Less(t, c.longest(), 5*time.Second)
	})
}

// Thousands come at once, each for one unit.
func TestWaitCrowd(t *testing.T) {
	t.Parallel()
	const waiters, rate = 2000, 500
	synctest.Test(t, func(t *testing.T) {
		m, err := NewMemory(TokenBucket, PerSecond(rate).WithBurst(1))
		require.NoError(t, err)
		began := time.Now()
		c := competition{Waiters: waiters}
		require.NoError(t, c.run(t.Context(), &slowLimiter{Limiter: m, trip: 300 * time.Microsecond}))
		require.Len(t, c.Waits, waiters)
		require.Less(t, c.callsPerUnit(), 120.0) // a thousand if all woke together
		require.Less(t, time.Since(began), 3*time.Second/2*waiters/rate)
		slices.Sort(c.Waits)
		for i, wait := range c.Waits {
			require.LessOrEqual(t, i, int(wait*rate/time.Second)+1)
		}
	})
}
