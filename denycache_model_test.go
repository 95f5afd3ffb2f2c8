package ratelimit

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// As long as nobody else asks the limiter, the cache answers as that alone
// would: always as to whether a call may go ahead, and as to its wait if the
// limiter has told that for the same n.
func TestDenyCacheEqualsItsLimiter(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			c, hits := seeded(t), 0
			for range 100 {
				synctest.Test(t, func(t *testing.T) { hits += runDenyModel(t, a, c, 300) })
			}
			require.Greater(t, hits, 1000, "too few calls were refused by the cache")
		})
	}
}

// runDenyModel is how many of the steps the cache answered.
func runDenyModel(t *testing.T, a Algorithm, c *choices, steps int) (hits int) {
	t.Helper()
	limit, tick := c.limit(a), time.Microsecond
	if a == FixedWindow {
		tick = time.Millisecond // so that rounding is none
		limit.Period = limit.Period.Truncate(tick) + tick
		limit.Period = min(limit.Period, maxPeriod)
	}
	alone, limiter := newMemory(t, a, limit), &asked{Limiter: newMemory(t, a, limit)}
	maxKeys := int(c.of(0, 0, 1, 2, 9))
	cache := &DenyCache{Limiter: limiter, MaxKeys: maxKeys}
	capacity := int64(limit.capacity(a))
	sizes := []int64{1, c.upTo(capacity), capacity, capacity + 1}
	told := map[string]map[int64]time.Time{} // until when the cache may know the wait for n
	began, wait := time.Now(), tick
	for range steps {
		pass := time.Duration(0)
		switch c.below(9) {
		case 0:
			pass = wait
		case 1:
			pass = wait - tick
		case 2:
			pass = time.Duration(c.upTo(int64(max(limit.Period/tick, 1)))) * tick
		}
		if pass > 100*365*24*time.Hour-time.Since(began) {
			return hits // the bubble's clock ends in 2262
		}
		time.Sleep(pass)
		key, n, peek := strconv.FormatInt(c.below(3), 10), c.of(sizes...), c.below(5) == 0
		if c.below(40) == 0 {
			require.NoError(t, alone.Reset(t.Context(), key))
			require.NoError(t, cache.Reset(t.Context(), key))
			delete(told, key)
		}
		ask := func(l Limiter) (Result, error) { return l.AllowN(t.Context(), key, int(n)) }
		if peek {
			n, ask = 1, func(l Limiter) (Result, error) { return l.Peek(t.Context(), key) }
		}
		want, err := ask(alone)
		require.NoError(t, err)
		calls := limiter.calls.Load()
		got, err := ask(cache)
		require.NoError(t, err)
		if !want.Allowed && want.RetryAfter != Never {
			wait = want.RetryAfter
		}
		if limiter.calls.Load() > calls {
			require.Equal(t, want, got)
			switch {
			case peek:
			case want.Allowed:
				delete(told, key)
			default:
				if told[key] == nil {
					told[key] = map[int64]time.Time{}
				}
				told[key][n] = time.Now().Add(min(want.RetryAfter, Never/2))
				if want.RetryAfter == Never {
					told[key][n] = time.Now().Add(neverFor)
				}
			}
			continue
		}
		hits++
		require.False(t, got.Allowed)
		require.False(t, want.Allowed, "%v: the cache refused %d for %v, and the limiter would not have", limit, n, got.RetryAfter)
		require.Positive(t, got.RetryAfter)
		require.LessOrEqual(t, got.RetryAfter, want.RetryAfter)
		require.LessOrEqual(t, got.Remaining, want.Remaining)
		require.Equal(t, want.ResetAfter, got.ResetAfter)
		require.Equal(t, want.Limit, got.Limit)
		if fits := maxKeys == 0 || maxKeys > 2; fits && told[key][n].After(time.Now()) {
			require.Equal(t, want.RetryAfter, got.RetryAfter)
		}
	}
	return hits
}
