package ratelimit

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// asked is a Limiter that counts what it is asked, Resets aside, and does
// something before and after each of its calls.
type asked struct {
	Limiter
	calls         atomic.Int64
	before, after func(call string)
}

func (a *asked) do(call string, f func()) {
	if a.before != nil {
		a.before(call)
	}
	f()
	if a.after != nil {
		a.after(call)
	}
}

func (a *asked) Allow(ctx context.Context, key string) (Result, error) { return a.AllowN(ctx, key, 1) }

func (a *asked) AllowN(ctx context.Context, key string, n int) (r Result, err error) {
	a.calls.Add(1)
	a.do("allow", func() { r, err = a.Limiter.AllowN(ctx, key, n) })
	return r, err
}

func (a *asked) Peek(ctx context.Context, key string) (r Result, err error) {
	a.calls.Add(1)
	a.do("peek", func() { r, err = a.Limiter.Peek(ctx, key) })
	return r, err
}

func (a *asked) Reset(ctx context.Context, key string) (err error) {
	a.do("reset", func() { err = a.Limiter.Reset(ctx, key) })
	return err
}

// The contract of all limiters, over the cache.
func TestDenyCacheKeepsTheContract(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, s *subject) {
		bare := s.Limiter
		c := &DenyCache{Limiter: bare}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		*s.limit = Per(1, time.Hour)
		take := func(key string, allowed bool) {
			t.Helper()
			r, err := c.Allow(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, allowed, r.Allowed, "%.80q", key)
		}

		// Bad input has the same errors whether the key is refused here or not.
		for range 2 {
			for _, bad := range []struct {
				key  string
				n    int
				want error
			}{
				{"key", 0, ErrInvalidN},
				{"key", math.MinInt, ErrInvalidN},
				{"", 1, ErrInvalidKey},
				{"key", 1, context.Canceled},
				{"", 0, context.Canceled},
			} {
				ctx := t.Context()
				if errors.Is(bad.want, context.Canceled) {
					ctx = gone
				}
				_, err := c.AllowN(ctx, bad.key, bad.n)
				require.ErrorIs(t, err, bad.want)
				_, want := bare.AllowN(ctx, bad.key, bad.n)
				require.EqualError(t, err, want.Error())
				if bad.n == 1 {
					_, err = c.Peek(ctx, bad.key)
					require.EqualError(t, err, want.Error())
					require.ErrorIs(t, c.Reset(ctx, bad.key), bad.want)
				}
			}
			_, err := c.Allow(t.Context(), "key")
			require.NoError(t, err)
			take("key", false)
		}
		require.NoError(t, c.Reset(t.Context(), "key"))

		long := strings.Repeat("x", 1<<20)
		keys := []string{"a", "b", "{}", "}", "{", " ", "\x00", "a{b}c", "\xff", long, long + "y", long[:256], long[:257]}
		for _, key := range keys {
			take(key, true)
			take(key, false)
			take(key, false)
		}
		for _, key := range keys {
			require.NoError(t, c.Reset(t.Context(), key))
			take(key, true)
		}

		// A bad limit has its error, and charges nothing.
		for _, l := range invalidLimits(s.algorithm) {
			*s.limit = l
			_, err := c.Allow(t.Context(), "limits")
			require.ErrorIs(t, err, ErrInvalidLimit, "%+v", l)
		}
		*s.limit = Per(1, time.Hour)
		take("limits", true)
	})
}

func TestDenyCacheWithoutALimiter(t *testing.T) {
	t.Parallel()
	for _, c := range []*DenyCache{nil, {}} {
		_, err := c.Allow(t.Context(), "key")
		require.ErrorContains(t, err, "no Limiter")
		_, err = c.Peek(t.Context(), "key")
		require.ErrorContains(t, err, "no Limiter")
		require.ErrorContains(t, c.Reset(t.Context(), "key"), "no Limiter")
	}
}

// Refused here until the last nanosecond, asked from the next one on; and the
// limiter would have refused as long, but for what its own clock rounds.
func TestDenyCacheRefusesUntilTheEnd(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(123 * time.Nanosecond)
			m := newMemory(t, a, Per(3, 7*time.Second).WithBurst(3))
			time.Sleep(456_789 * time.Nanosecond)
			limiter := &asked{Limiter: m}
			c := &DenyCache{Limiter: limiter}
			_, err := c.AllowN(t.Context(), "key", 3)
			require.NoError(t, err)
			time.Sleep(time.Second)
			told, err := c.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.False(t, told.Allowed)

			began, calls := time.Now(), limiter.calls.Load()
			left := func() time.Duration { return told.RetryAfter - time.Since(began) }
			for left() > 0 {
				for _, f := range []func(context.Context, string) (Result, error){c.Allow, c.Peek} {
					r, err := f(t.Context(), "key")
					require.NoError(t, err)
					want := told
					want.RetryAfter = ceilMicros(left())
					want.ResetAfter = ceilMicros(told.ResetAfter - time.Since(began))
					require.Equal(t, want, r, a)
				}
				if left() > time.Millisecond {
					r, err := m.Peek(t.Context(), "key")
					require.NoError(t, err)
					require.False(t, r.Allowed, a)
				}
				switch {
				case left() > 2*time.Millisecond:
					time.Sleep(min(left()/7+1, left()-2*time.Millisecond))
				case left() > 2*time.Microsecond:
					time.Sleep(min(997, left()-2*time.Microsecond))
				default:
					time.Sleep(time.Nanosecond)
				}
			}
			require.Equal(t, calls, limiter.calls.Load(), "%s: asked before the end", a)
			r, err := c.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.True(t, r.Allowed, "%s: refused after RetryAfter", a)
			require.Equal(t, calls+1, limiter.calls.Load())
		})
	}
}

// The time on the way, there and back, makes no wait longer.
func TestDenyCacheCountsFromBeforeTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(string) { time.Sleep(300 * time.Millisecond) }
		limiter := &asked{Limiter: refusing(time.Second), before: slow, after: slow}
		c := &DenyCache{Limiter: limiter}
		_, err := c.Allow(t.Context(), "key")
		require.NoError(t, err)
		r, err := c.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, 400*time.Millisecond, r.RetryAfter)
		require.EqualValues(t, 1, limiter.calls.Load())

		// What is over when the answer comes is not kept.
		limiter.Limiter = refusing(600 * time.Millisecond)
		time.Sleep(400 * time.Millisecond)
		for i := range 3 {
			r, err := c.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.Equal(t, 600*time.Millisecond, r.RetryAfter)
			require.EqualValues(t, 2+i, limiter.calls.Load())
		}
	})
}

// A refusal says nothing of fewer units, and something of more.
func TestDenyCacheOfSeveralN(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := &asked{Limiter: newMemory(t, TokenBucket, PerSecond(1).WithBurst(10))}
		c := &DenyCache{Limiter: limiter}
		ask := func(n int, allowed bool, retry time.Duration, calls int64) {
			t.Helper()
			r, err := c.AllowN(t.Context(), "key", n)
			require.NoError(t, err)
			require.Equal(t, allowed, r.Allowed)
			require.Equal(t, retry, r.RetryAfter)
			require.Equal(t, calls, limiter.calls.Load())
		}
		ask(8, true, 0, 1)
		ask(5, false, 3*time.Second, 2)
		ask(9, false, 3*time.Second, 2) // 7 s by the limiter, not known here
		ask(2, true, 0, 3)
		ask(5, false, 5*time.Second, 4) // what was taken is seen
		ask(1, false, time.Second, 5)
		ask(1, false, time.Second, 5)
		ask(4, false, time.Second, 5)
		ask(5, false, 5*time.Second, 5)
		ask(7, false, 5*time.Second, 5)
		time.Sleep(time.Second)
		ask(5, false, 4*time.Second, 5)
		ask(4, false, 3*time.Second, 6)
		ask(5, false, 4*time.Second, 6)
		ask(1, true, 0, 7)

		// What can never be is asked again each second.
		ask(11, false, Never, 8)
		time.Sleep(neverFor - 1)
		ask(11, false, Never, 8)
		ask(math.MaxInt, false, Never, 8)
		ask(10, false, 9*time.Second+time.Microsecond, 9)
		ask(11, false, Never, 9)
		time.Sleep(time.Nanosecond)
		ask(11, false, 9*time.Second+time.Microsecond, 9) // at least, by that of 10
		require.NoError(t, c.Reset(t.Context(), "key"))
		ask(11, false, Never, 10)
		ask(10, true, 0, 11)
	})
}

// Only what a call was refused is remembered, and only the smallest few.
func TestDenyCacheRemembersLittle(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Limiter{
		"no wait":     alike{Result{}},
		"less":        alike{Result{RetryAfter: -time.Hour}},
		"allowed":     alike{Result{Allowed: true, RetryAfter: time.Hour}},
		"unsupported": failing{},
	} {
		limiter := &asked{Limiter: l}
		c := &DenyCache{Limiter: limiter}
		for i := range int64(3) {
			r, err := c.Allow(t.Context(), "key")
			want, wantErr := l.Allow(t.Context(), "key")
			require.Equal(t, want, r, name)
			require.Equal(t, wantErr, err, name)
			require.Equal(t, i+1, limiter.calls.Load(), name)
		}
	}

	limiter := &asked{Limiter: refusing(Never - 1)}
	c := &DenyCache{Limiter: limiter}
	for i := range int64(3) {
		_, err := c.Peek(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, i+1, limiter.calls.Load(), "a peek was remembered")
	}
	for n := 50; n > 0; n-- {
		_, err := c.AllowN(t.Context(), "key", n)
		require.NoError(t, err)
	}
	d := c.denials().begin("key").seen
	require.LessOrEqual(t, len(d.refusals), maxRefusals)
	require.Equal(t, 1, d.refusals[0].n)
	r, err := c.Peek(t.Context(), "key")
	require.NoError(t, err)
	require.Greater(t, r.RetryAfter, 100*365*24*time.Hour, "a wait that is all but endless was cut")
}

type failing struct{ alike }

func (failing) AllowN(context.Context, string, int) (Result, error) {
	return Result{RetryAfter: time.Hour}, errors.ErrUnsupported
}

func (f failing) Allow(ctx context.Context, key string) (Result, error) { return f.AllowN(ctx, key, 1) }

// What was refused by another limit is told no more, once that is seen.
func TestDenyCacheSeesAnotherLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := PerHour(10)
		c := &DenyCache{Limiter: newMemory(t, TokenBucket, LimitFunc(func(context.Context, string) (Limit, error) { return limit, nil }))}
		ask := func(n int) Result {
			r, err := c.AllowN(t.Context(), "key", n)
			require.NoError(t, err)
			return r
		}
		require.True(t, ask(10).Allowed)
		require.Equal(t, 30*time.Minute, ask(5).RetryAfter)
		limit = Per(10, 10*time.Second)
		require.Equal(t, 30*time.Minute, ask(5).RetryAfter, "not asked")
		require.Equal(t, time.Second, ask(1).RetryAfter)
		require.Equal(t, time.Second, ask(5).RetryAfter)
		time.Sleep(time.Second)
		require.Equal(t, 4*time.Second, ask(5).RetryAfter)
		require.True(t, ask(1).Allowed)
	})
}
