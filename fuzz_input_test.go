package ratelimit

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func (c *choices) algorithm() Algorithm { return allAlgorithms[c.below(int64(len(allAlgorithms)))] }

// requireDecision holds a decision about n units to what every Limiter promises.
func requireDecision(tb testing.TB, a Algorithm, l Limit, n int, r Result) {
	tb.Helper()
	require.Equal(tb, l, r.Limit)
	require.Equal(tb, r.Allowed, r.RetryAfter == 0, "%+v", r)
	require.GreaterOrEqual(tb, r.Remaining, 0)
	require.GreaterOrEqual(tb, r.RetryAfter, time.Duration(0))
	require.GreaterOrEqual(tb, r.ResetAfter, time.Duration(0))
	if l.Rate == unlimited {
		require.True(tb, r.Allowed)
		return
	}
	capacity := l.capacity(a)
	require.LessOrEqual(tb, r.Remaining, capacity)
	require.Equal(tb, n > capacity || l.Rate == 0, r.RetryAfter == Never, "%d of %v: %+v", n, l, r)
	if l.Rate > 0 && r.RetryAfter != Never {
		// Time to full, or two windows of the counter; a ms as Redis counts.
		whole, rest := muldiv(int64(capacity), l.Period.Microseconds(), int64(l.Rate))
		longest := max(time.Duration(whole+min(rest, 1))*us, 2*l.Period) + time.Millisecond
		require.LessOrEqual(tb, r.RetryAfter, longest)
		require.LessOrEqual(tb, r.ResetAfter, longest)
	}
}

// FuzzLimit: any Limit is refused by all constructors and calls alike, or a
// Memory with it decides within bounds, and its RetryAfter is enough.
func FuzzLimit(f *testing.F) {
	for _, l := range append(invalidLimits(TokenBucket), Unlimited, PerSecond(5), PerDay(1), Per(0, sec), Per(maxUnits, us), Per(1, maxPeriod),
		Per(1, maxPeriod).WithBurst(99), Per(maxLogged, us), Per(7, 3*us).WithBurst(2), Per(3, 1001*us), Per(maxUnits, maxPeriod).WithBurst(maxUnits)) {
		for a := range allAlgorithms {
			f.Add(byte(a), l.Rate, int64(l.Period), l.Burst, 1)
		}
	}
	f.Add(byte(0), 5, int64(time.Second), 10, math.MaxInt)
	rdb := redis.NewClient(&redis.Options{})
	f.Cleanup(func() { _ = rdb.Close() })
	f.Fuzz(func(t *testing.T, which byte, rate int, period int64, burst, n int) {
		a := allAlgorithms[int(which)%len(allAlgorithms)]
		l := Limit{Rate: rate, Period: time.Duration(period), Burst: burst}
		_, err := NewMemory(a, l)
		if _, other := newRedis(a, rdb, l, nil); err != nil || other != nil {
			require.ErrorIs(t, err, ErrInvalidLimit)
			require.ErrorIs(t, other, ErrInvalidLimit)
			m := newMemory(t, a, LimitFunc(l.LimitFor))
			_, err = m.AllowN(t.Context(), "key", 1)
			require.ErrorIs(t, err, ErrInvalidLimit)
			return
		}
		if a == SlidingWindowLog && l.capacity(a) > 10_000 && n > 10_000 {
			n = 10_000 // each unit is kept
		}
		synctest.Test(t, func(t *testing.T) {
			m, n := newMemory(t, a, l), max(n, 1)
			for range 3 {
				r, err := m.AllowN(t.Context(), "key", n)
				require.NoError(t, err)
				requireDecision(t, a, l, n, r)
				if r.Allowed || r.RetryAfter == Never {
					continue
				}
				time.Sleep(r.RetryAfter)
				again, err := m.AllowN(t.Context(), "key", n)
				require.NoError(t, err)
				require.True(t, again.Allowed, "%d of %v refused after %v: %+v", n, l, r.RetryAfter, again)
			}
		})
	})
}

// FuzzUnits: whatever is asked of a Memory in whatever order, it takes all units
// or none, gives none back, and lets through no more than the limit says.
func FuzzUnits(f *testing.F) {
	addSteps(f)
	f.Fuzz(func(t *testing.T, steps []byte) {
		c := &choices{data: steps}
		a := c.algorithm()
		l := c.limit(a)
		synctest.Test(t, func(t *testing.T) {
			u := &units{Memory: newMemory(t, a, l), a: a, l: l, began: time.Now()}
			for range min(len(steps)/4, 100) {
				u.step(t, c)
			}
		})
	})
}

// units is one key of a Memory, and what it has let through.
type units struct {
	*Memory
	a     Algorithm
	l     Limit
	began time.Time
	taken int64
}

func (u *units) peek(t *testing.T) Result {
	t.Helper()
	r, err := u.Peek(t.Context(), "key")
	require.NoError(t, err)
	requireDecision(t, u.a, u.l, 1, r)
	return r
}

func (u *units) step(t *testing.T, c *choices) {
	t.Helper()
	before := u.peek(t)
	n := u.amount(c)
	r, err := u.AllowN(t.Context(), "key", n)
	if n < 1 {
		require.ErrorIs(t, err, ErrInvalidN)
		require.Equal(t, before, u.peek(t), "%d units changed something", n)
		return
	}
	require.NoError(t, err)
	requireDecision(t, u.a, u.l, n, r)
	after := u.peek(t)
	require.Equal(t, n <= before.Remaining, r.Allowed, "%d with %d left", n, before.Remaining)
	if r.Allowed {
		u.taken += int64(n)
		require.Equal(t, before.Remaining-n, after.Remaining)
	} else {
		require.Equal(t, before, after, "a refused call changed something")
	}

	// The bucket at the start and what came in since, or a rate each period begun.
	passed, rate, period := time.Since(u.began).Microseconds(), int64(u.l.Rate), u.l.Period.Microseconds()
	most, _ := muldiv(rate, passed/period+1, 1)
	if u.a == TokenBucket || u.a == LeakyBucket {
		came, _ := muldiv(passed, rate, period)
		most = int64(u.l.capacity(u.a)) + min(came, 1<<62)
	}
	require.LessOrEqual(t, u.taken, most)

	if c.below(2) == 0 {
		time.Sleep(time.Duration(c.of(1, 999, 1000, c.upTo(1e9), r.RetryAfter.Microseconds(), after.ResetAfter.Microseconds(), u.l.Period.Microseconds())%400e12) * us)
	}
}

// amount is units to ask for, now and then none, less than none or too many.
func (u *units) amount(c *choices) int {
	if c.below(8) == 0 {
		return int(c.of(0, -1, math.MinInt64, math.MinInt32, -c.upTo(1e12), math.MaxInt64, math.MaxInt32, 1<<53+1))
	}
	return c.units(int64(u.l.capacity(u.a)))
}

// FuzzKey: whatever the key, Memory keeps it apart from another, bounds what it
// stores of it, and errors stay short and on one line.
func FuzzKey(f *testing.F) {
	for _, key := range []string{"a", "", "\n", "\x00", "\xff\xfe", "é", strings.Repeat("x", 257), strings.Repeat("\u202e", 64), "a\r\n+OK"} {
		f.Add(key, "b")
	}
	f.Fuzz(func(t *testing.T, key, other string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m := newMemory(t, FixedWindow, PerHour(1))
		r, err := m.Allow(ctx, key)
		if key == "" {
			require.ErrorIs(t, err, ErrInvalidKey)
			return
		}
		require.NoError(t, err)
		require.True(t, r.Allowed)
		if other != "" {
			r, err = m.Peek(ctx, other)
			require.NoError(t, err)
			require.Equal(t, key != other, r.Allowed, "%q and %q", key, other)
		}
		for kept := range m.keys {
			require.LessOrEqual(t, len(kept), longestKey+32)
		}
		_, err = m.AllowN(ctx, key, 0)
		require.ErrorIs(t, err, ErrInvalidN)
		require.LessOrEqual(t, len(err.Error()), 800)
		for _, c := range err.Error() {
			require.True(t, c >= ' ' && c != 0x7f && c != '\u2028' && c != '\u202e', "%q is in an error", c)
		}
	})
}
