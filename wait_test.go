package ratelimit

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A scripted limiter answers what it is told, call after call, and the last for
// ever. Its own methods are all that a Wait needs.
type scripted struct {
	Limiter
	answers []scriptedAnswer
	asked   []time.Time
	n       []int
}

type scriptedAnswer struct {
	Result
	err error
}

func (s *scripted) AllowN(_ context.Context, _ string, n int) (Result, error) {
	i := min(len(s.asked), len(s.answers)-1)
	s.asked, s.n = append(s.asked, time.Now()), append(s.n, n)
	return s.answers[i].Result, s.answers[i].err
}

func refusedWait(wait time.Duration) scriptedAnswer {
	return scriptedAnswer{Result: Result{Limit: PerSecond(10), RetryAfter: wait}}
}

var allowance = scriptedAnswer{Result: Result{Allowed: true, Limit: PerSecond(10), Remaining: 7}}

// eachMemory runs f for all algorithms in memory, in a bubble, on a key of which
// nothing is left.
func eachMemory(t *testing.T, l Limit, f func(t *testing.T, m *Memory)) {
	t.Helper()
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, err := NewMemory(a, l)
				require.NoError(t, err)
				r, err := m.AllowN(t.Context(), "key", l.capacity(a))
				require.NoError(t, err)
				require.True(t, r.Allowed)
				f(t, m)
			})
		})
	}
}

// refused is what m says to n units, which it must refuse.
func refused(t *testing.T, m *Memory, n int) Result {
	t.Helper()
	r, err := m.AllowN(t.Context(), "key", n)
	require.NoError(t, err)
	require.False(t, r.Allowed)
	return r
}

func TestWaitAlone(t *testing.T) {
	t.Parallel()
	limit := PerSecond(10).WithBurst(10)
	for _, n := range []int{1, 3, 10} {
		eachMemory(t, limit, func(t *testing.T, m *Memory) {
			retry := refused(t, m, n).RetryAfter
			l, began := &slowLimiter{Limiter: m}, time.Now()
			r, err := WaitN(t.Context(), l, "key", n)
			require.NoError(t, err)
			require.True(t, r.Allowed)
			require.EqualValues(t, 2, l.calls.Load())
			require.GreaterOrEqual(t, time.Since(began), retry)
			require.LessOrEqual(t, time.Since(began), retry+time.Duration(n)*100*time.Millisecond/10)
		})
	}
}

// A lone worker gets what the limit has, with two calls a unit at most.
func TestWaitAgainAndAgain(t *testing.T) {
	t.Parallel()
	eachMemory(t, PerSecond(10), func(t *testing.T, m *Memory) {
		l, began := &slowLimiter{Limiter: m}, time.Now()
		for range 300 {
			_, err := Wait(t.Context(), l, "key")
			require.NoError(t, err)
		}
		require.LessOrEqual(t, l.calls.Load(), int64(600))
		require.Less(t, time.Since(began), 30*time.Second*11/10+time.Millisecond)
	})
}

func TestWaitForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, began := &scripted{answers: []scriptedAnswer{allowance}}, time.Now()
		r, err := WaitN(t.Context(), l, "key", 3)
		require.NoError(t, err)
		require.Equal(t, allowance.Result, r)
		require.Equal(t, []int{3}, l.n)

		m, err := NewMemory(TokenBucket, Unlimited)
		require.NoError(t, err)
		r, err = WaitN(t.Context(), m, "key", math.MaxInt)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Zero(t, time.Since(began))
	})
}

func TestWaitBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	eachMemory(t, PerHour(1), func(t *testing.T, m *Memory) {
		retry := refused(t, m, 1).RetryAfter
		for _, deadline := range []time.Duration{1, time.Second, retry - 1, retry} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			began := time.Now()
			r, err := Wait(ctx, m, "key")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.EqualError(t, err, `ratelimit: wait: key "key": it would take `+retry.String()+
				" and the deadline is in "+deadline.String()+": context deadline exceeded")
			require.False(t, r.Allowed)
			require.Equal(t, retry, r.RetryAfter)
			require.Zero(t, time.Since(began))
			require.NoError(t, ctx.Err())
			cancel()
		}
		ctx, cancel := context.WithTimeout(t.Context(), retry+time.Microsecond)
		defer cancel()
		_, err := Wait(ctx, m, "key")
		require.NoError(t, err)
		require.NoError(t, ctx.Err())
	})
}

func TestWaitCanceled(t *testing.T) {
	t.Parallel()
	eachMemory(t, PerHour(1), func(t *testing.T, m *Memory) {
		before := refused(t, m, 1).RetryAfter
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Minute, cancel)
		r, err := Wait(ctx, m, "key")
		require.Equal(t, context.Canceled, err)
		require.False(t, r.Allowed)
		require.Equal(t, before, r.RetryAfter)
		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, before-time.Minute, refused(t, m, 1).RetryAfter)

		l := &scripted{answers: []scriptedAnswer{allowance}}
		r, err = Wait(ctx, l, "key")
		require.Equal(t, context.Canceled, err)
		require.Zero(t, r)
		require.Empty(t, l.asked)
	})
}

// A deadline that moves nearer, by the clock or by the limiter, ends the sleep.
func TestWaitUntilTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		l, began := &scripted{answers: []scriptedAnswer{refusedWait(9 * time.Second), refusedWait(time.Minute)}}, time.Now()
		r, err := Wait(ctx, l, "key")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "it would take 1m0s and the deadline is in ")
		require.Equal(t, time.Minute, r.RetryAfter)
		require.Less(t, time.Since(began), 10*time.Second)
		require.Len(t, l.asked, 2)
	})
}

func TestWaitForEver(t *testing.T) {
	t.Parallel()
	eachMemory(t, PerSecond(10).WithBurst(10), func(t *testing.T, m *Memory) {
		began := time.Now()
		r, err := WaitN(t.Context(), m, "key", 200)
		require.ErrorIs(t, err, ErrNever)
		require.EqualError(t, err, `ratelimit: wait: key "key": never allowed: 200 units, the limit is 10 per 1s, burst 10`)
		require.Equal(t, Never, r.RetryAfter)

		blocked, err := NewMemory(m.algorithm, PerSecond(0))
		require.NoError(t, err)
		_, err = Wait(t.Context(), blocked, "key")
		require.ErrorIs(t, err, ErrNever)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, time.Since(began))
	})
}

func TestWaitErrors(t *testing.T) {
	t.Parallel()
	eachMemory(t, PerSecond(10), func(t *testing.T, m *Memory) {
		began := time.Now()
		_, err := WaitN(t.Context(), m, "key", 0)
		require.ErrorIs(t, err, ErrInvalidN)
		_, err = Wait(t.Context(), m, "")
		require.ErrorIs(t, err, ErrInvalidKey)
		require.Zero(t, time.Since(began))

		away := errors.New("Redis is away")
		l := &scripted{answers: []scriptedAnswer{refusedWait(time.Second), {err: away}}}
		r, err := Wait(t.Context(), l, "key")
		require.Equal(t, away, err)
		require.Zero(t, r)
		require.Len(t, l.asked, 2)
	})
}

// However often it is refused, it sleeps for RetryAfter, and beyond it for no
// longer than is said.
func TestWaitLateness(t *testing.T) {
	t.Parallel()
	const each = 100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		l := &scripted{}
		for range 1000 {
			l.answers = append(l.answers, refusedWait(each/2))
		}
		l.answers = append(l.answers, allowance)
		_, err := Wait(t.Context(), l, "key")
		require.NoError(t, err)
		require.Len(t, l.asked, 1001)

		longer, distinct := 0, map[time.Duration]bool{}
		for i, asked := range l.asked[1:] {
			age := float64(l.asked[i].Sub(l.asked[0])) / float64(each)
			late, most := asked.Sub(l.asked[i])-each/2, float64(each)/10*(0.1+0.9*max(0, 1-math.Log2(1+age)/8))
			if (i+1)%3 == 2 {
				most += float64(each) * 3 * math.Sqrt(age)
			}
			require.GreaterOrEqual(t, late, time.Duration(0))
			require.LessOrEqual(t, float64(late), most)
			distinct[late] = true
			if late > each {
				longer++
			}
		}
		require.Greater(t, longer, 300)
		require.Greater(t, len(distinct), 500, "sleepers would wake together")
	})
}

func TestWaitLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const month = 30 * 24 * time.Hour
		m, err := NewMemory(FixedWindow, Per(1, month))
		require.NoError(t, err)
		_, err = Wait(t.Context(), m, "key")
		require.NoError(t, err)
		l, began := &slowLimiter{Limiter: m}, time.Now()
		_, err = Wait(t.Context(), l, "key")
		require.NoError(t, err)
		require.EqualValues(t, 2, l.calls.Load())
		require.GreaterOrEqual(t, time.Since(began), month)
		require.LessOrEqual(t, time.Since(began), month+time.Second+time.Millisecond)
	})
}

// What other limiters may say: no wait at all, no limit, waits that overflow.
func TestWaitStrangeRefusals(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Result{
		"no wait":            {Limit: PerSecond(10)},
		"a wait in the past": {Limit: PerSecond(10), RetryAfter: -time.Hour},
		"nothing":            {},
		"no limit":           {RetryAfter: time.Millisecond},
		"a fast limit":       {Limit: Per(math.MaxInt, 1), RetryAfter: time.Microsecond},
		"a slow limit":       {Limit: Per(1, math.MaxInt64), RetryAfter: time.Millisecond},
		"almost never":       {Limit: PerSecond(10), RetryAfter: Never - 1},
		"always slow":        {Limit: Per(1, math.MaxInt64), RetryAfter: Never - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, cancel)
				l, began := &scripted{answers: []scriptedAnswer{{Result: r}}}, time.Now()
				_, err := WaitN(ctx, l, "key", 1000)
				require.Equal(t, context.Canceled, err)
				require.Equal(t, time.Minute, time.Since(began))
				if r.RetryAfter <= 0 {
					require.LessOrEqual(t, len(l.asked), 60_000, "a busy loop")
				}
			})
		})
	}
}

// A limit that changes in the meantime counts from the next call.
func TestWaitChangedLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m, err := NewMemory(TokenBucket, LimitFunc(func(context.Context, string) (Limit, error) {
			if time.Since(began) < 30*time.Second {
				return PerMinute(1), nil
			}
			return PerMinute(0), nil
		}))
		require.NoError(t, err)
		_, err = Wait(t.Context(), m, "key")
		require.NoError(t, err)
		_, err = Wait(t.Context(), m, "key")
		require.ErrorIs(t, err, ErrNever)
	})
}
