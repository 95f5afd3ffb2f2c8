package ratelimit

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The contract of all limiters, over a Lease.
func TestLeaseKeepsTheContract(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, s *subject) {
		bare := s.Limiter.(Base)
		l := &Lease{Limiter: bare}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		*s.limit = Per(1, time.Hour)
		take := func(key string, allowed bool) {
			t.Helper()
			r, err := l.Allow(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, allowed, r.Allowed, "%.80q", key)
			require.Zero(t, r.Remaining)
			r, err = l.Peek(t.Context(), key)
			require.NoError(t, err)
			require.False(t, r.Allowed)
		}

		// Bad input has the same errors whatever is known here.
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
				_, err := l.AllowN(ctx, bad.key, bad.n)
				require.ErrorIs(t, err, bad.want)
				_, want := bare.AllowN(ctx, bad.key, bad.n)
				require.EqualError(t, err, want.Error())
				if bad.n == 1 {
					_, err = l.Peek(ctx, bad.key)
					require.EqualError(t, err, want.Error())
					require.ErrorIs(t, l.Reset(ctx, bad.key), bad.want)
				}
			}
			_, err := l.Allow(t.Context(), "key")
			require.NoError(t, err)
			take("key", false)
		}
		require.NoError(t, l.Reset(t.Context(), "key"))

		long := strings.Repeat("x", 1<<20)
		keys := []string{"a", "b", "{}", "}", "{", " ", "\x00", "a{b}c", "\xff", long, long + "y", long[:256], long[:257]}
		for _, key := range keys {
			take(key, true)
			take(key, false)
			take(key, false)
		}
		for _, key := range keys {
			require.NoError(t, l.Reset(t.Context(), key))
			take(key, true)
		}

		// A bad limit has its error, and charges nothing.
		for _, limit := range invalidLimits(s.algorithm) {
			*s.limit = limit
			_, err := l.Allow(t.Context(), "limits")
			require.ErrorIs(t, err, ErrInvalidLimit, "%+v", limit)
		}
		*s.limit = Per(1, time.Hour)
		take("limits", true)

		*s.limit = Unlimited
		for range 100 {
			r, err := l.AllowN(t.Context(), "free", 7)
			require.NoError(t, err)
			require.Equal(t, Result{Allowed: true, Limit: Unlimited, Remaining: math.MaxInt}, r)
		}
		*s.limit = Per(0, time.Hour)
		for range 2 {
			r, err := l.AllowN(t.Context(), "blocked", 7)
			require.NoError(t, err)
			require.Equal(t, Result{Limit: *s.limit, RetryAfter: Never}, r)
		}
	})
}

func TestLeaseWithoutALimiter(t *testing.T) {
	t.Parallel()
	for _, l := range []*Lease{nil, {}} {
		_, err := l.Allow(t.Context(), "key")
		require.ErrorContains(t, err, "no Limiter")
		_, err = l.Peek(t.Context(), "key")
		require.ErrorContains(t, err, "no Limiter")
		require.ErrorContains(t, l.Reset(t.Context(), "key"), "no Limiter")
		require.ErrorContains(t, l.Release(t.Context()), "no Limiter")
	}
	for _, made := range []Base{(*Redis)(nil), new(Redis), (*Memory)(nil), new(Memory)} {
		_, err := (&Lease{Limiter: made}).Allow(t.Context(), "key")
		require.ErrorIs(t, err, errNotMade)
	}
}

// While no time passes, a Lease that is alone decides as its limiter would, and
// knows as well what is left.
func TestLeaseAloneEqualsItsLimiter(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		c := seeded(t)
		for range 4 {
			synctest.Test(t, func(t *testing.T) {
				limit := Per(1+int(c.below(3000)), time.Second).WithBurst(1 + int(c.below(3000)))
				lender := lend(t, a, limit)
				l, bare := &Lease{Limiter: lender}, newMemory(t, a, limit)
				calls := 0
				for range 500 {
					n := int(c.of(1, 1, 1, 1, 1+c.below(4), 1+c.below(1+int64(limit.capacity(a))/20), int64(limit.capacity(a))+1))
					want, got := allow(t, bare, n), allow(t, l, n)
					require.Equal(t, want.Allowed, got.Allowed, "%s %v: %d units", a, limit, n)
					require.Equal(t, want.Remaining, got.Remaining, "%s %v: %d units", a, limit, n)
					if n == 1 {
						require.Equal(t, want.RetryAfter, got.RetryAfter)
					}
					want, err := bare.Peek(t.Context(), "key")
					require.NoError(t, err)
					got, err = l.Peek(t.Context(), "key")
					require.NoError(t, err)
					require.Equal(t, want.Remaining, got.Remaining)
					require.Equal(t, want.Allowed, got.Allowed)
					calls++
				}
				require.Less(t, len(lender.asked()), calls)
			})
		}
	}
}

// What is refused is refused without asking until the last nanosecond, and
// allowed from the next one on.
func TestLeaseRefusesUntilTheEnd(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		synctest.Test(t, func(t *testing.T) {
			limit := Per(30, 7*time.Second).WithBurst(30)
			lender := lend(t, a, limit)
			l := &Lease{Limiter: lender}
			for range 30 {
				require.True(t, allow(t, l, 1).Allowed)
			}
			told := allow(t, l, 1)
			require.False(t, told.Allowed)
			lender.asked()
			for _, pass := range []time.Duration{0, told.RetryAfter / 3, told.RetryAfter*2/3 - 1} {
				time.Sleep(pass)
				told.RetryAfter -= pass
				require.Equal(t, ceilMicros(told.RetryAfter), allow(t, l, 1).RetryAfter)
				require.GreaterOrEqual(t, allow(t, l, 31).RetryAfter, told.RetryAfter)
				r, err := l.Peek(t.Context(), "key")
				require.NoError(t, err)
				require.Equal(t, ceilMicros(told.RetryAfter), r.RetryAfter)
			}
			require.Empty(t, lender.asked())
			time.Sleep(told.RetryAfter)
			require.True(t, allow(t, l, 1).Allowed, a)
		})
	}
}

// A fixed window has all of its Rate and no unit of the window before.
func TestLeaseBlockEndsWithItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lender := lend(t, FixedWindow, PerSecond(1000))
		l := &Lease{Limiter: lender, MaxAge: time.Hour}
		for range 100 {
			allow(t, l, 1)
		}
		lapsed := lender.granted() - 100
		time.Sleep(time.Second - 20*time.Millisecond)
		for range 20 { // a block of the last moments
			allow(t, l, 1)
		}
		r := must(l.Peek(t.Context(), "key"))
		require.Equal(t, 20*time.Millisecond, r.ResetAfter)
		require.Equal(t, 880-lapsed, r.Remaining)
		require.Less(t, must(lender.Peek(t.Context(), "key")).Remaining, r.Remaining, "there is no block to lose")
		time.Sleep(20 * time.Millisecond)
		allowed := 0
		for allow(t, l, 1).Allowed {
			allowed++
		}
		require.Equal(t, 1000, allowed)
		require.True(t, slices.ContainsFunc(lender.asked(), func(n int) bool { return n > 50 }))
	})
}
