package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

// What docs/algorithms.md says, and no picture shows, is held here.

const period = 10 * time.Second

// The most in any period, each kind under the traffic that is worst for it.
func TestMostInAPeriod(t *testing.T) {
	t.Parallel()
	const tick = 10 * time.Millisecond
	limit := ratelimit.Per(20, period)
	for name, tt := range map[string]struct {
		calls []time.Duration
		want  []int // in the order of kinds
	}{
		"a burst, then all the time": {
			slices.Concat(burst(0, 20), steady(tick, 2*period, tick)),
			[]int{39, 20, 20, 20, 20},
		},
		"a burst on each side of a boundary": {
			slices.Concat(burst(0, 1), burst(period-time.Millisecond, 20), burst(period, 20)),
			[]int{21, 2, 39, 20, 20},
		},
		"a burst late in a window, then all the time": {
			slices.Concat(burst(0, 1), burst(period-time.Millisecond, 19), steady(period, 2*period, tick)),
			[]int{39, 20, 39, 20, 39},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records, err := play(script{calls: tt.calls, limit: always(limit)}, kinds...)
			require.NoError(t, err)
			var got []int
			for _, r := range records {
				most := 0
				for _, l := range r.within(period) {
					most = max(most, l.remaining)
				}
				got = append(got, most)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// With the same limit and the same Burst, the two buckets answer alike.
func TestBucketsAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := ratelimit.Per(7, period).WithBurst(5)
		token, err := ratelimit.NewMemory(ratelimit.TokenBucket, limit)
		require.NoError(t, err)
		leaky, err := ratelimit.NewMemory(ratelimit.LeakyBucket, limit)
		require.NoError(t, err)
		for range 5000 {
			time.Sleep(time.Duration(rand.Int64N(int64(period / 4))).Truncate(time.Microsecond))
			n := 1 + rand.IntN(6)
			a, err := token.AllowN(t.Context(), "key", n)
			require.NoError(t, err)
			b, err := leaky.AllowN(t.Context(), "key", n)
			require.NoError(t, err)
			require.Equal(t, a, b)
		}
	})
}

// A change is what one limiter answers before and after its limit changes.
func TestChanges(t *testing.T) {
	t.Parallel()
	per := ratelimit.Per
	for name, tt := range map[string]struct {
		kind      kind
		old       ratelimit.Limit
		take      int
		wait      time.Duration
		new       ratelimit.Limit
		remaining int
		reset     time.Duration
	}{
		"token bucket, burst raised: the tokens stay": {
			tokenBucket, per(10, period), 8, 0, per(10, period).WithBurst(30), 2, 28 * time.Second,
		},
		"token bucket, burst cut: the tokens are cut": {
			tokenBucket, per(10, period), 2, 0, per(10, period).WithBurst(5), 5, 0,
		},
		"token bucket, rate raised: the time since the last take counts at the new rate": {
			tokenBucket, per(10, period), 8, 2 * time.Second, per(20, period).WithBurst(10), 6, 2 * time.Second,
		},
		"leaky bucket, burst raised: the level stays": {
			leakyBucket, per(10, period).WithBurst(10), 8, 0, per(10, period).WithBurst(30), 22, 8 * time.Second,
		},
		"leaky bucket, burst cut: the level is cut": {
			leakyBucket, per(10, period).WithBurst(10), 8, 0, per(10, period).WithBurst(5), 0, 5 * time.Second,
		},
		"fixed window, rate cut: what was taken stays": {
			fixedWindow, per(10, period), 8, 0, per(5, period), 0, period,
		},
		"fixed window, rate raised": {
			fixedWindow, per(10, period), 8, 0, per(20, period), 12, period,
		},
		"fixed window, shorter period: the window ends within one": {
			fixedWindow, per(10, period), 8, time.Second, per(10, 3*time.Second), 2, 3 * time.Second,
		},
		"fixed window, longer period: the window ends as it would": {
			fixedWindow, per(10, period), 8, time.Second, per(10, time.Minute), 2, 9 * time.Second,
		},
		"log, shorter period: at once": {
			slidingLog, per(10, period), 8, 4 * time.Second, per(10, 3*time.Second), 10, 0,
		},
		"log, longer period: the units count on": {
			slidingLog, per(10, period), 8, 4 * time.Second, per(10, time.Minute), 2, 56 * time.Second,
		},
		"log, longer period, too late: forgotten": {
			slidingLog, per(10, period), 8, 11 * time.Second, per(10, time.Minute), 10, 0,
		},
		"counter, rate cut: the counts stay": {
			counter, per(10, period), 8, time.Second, per(5, period), 0, 9*time.Second + 8750*time.Millisecond,
		},
		"counter, shorter period: as if it always had been": {
			counter, per(10, period), 8, 5 * time.Second, per(10, 4*time.Second), 4, 2500 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limit := tt.old
				limiter, err := ratelimit.NewMemory(tt.kind.algorithm, ratelimit.LimitFunc(
					func(context.Context, string) (ratelimit.Limit, error) { return limit, nil }))
				require.NoError(t, err)
				result, err := limiter.AllowN(t.Context(), "key", tt.take)
				require.NoError(t, err)
				require.True(t, result.Allowed)
				time.Sleep(tt.wait)
				limit = tt.new
				result, err = limiter.Peek(t.Context(), "key")
				require.NoError(t, err)
				require.Equal(t, tt.remaining, result.Remaining)
				require.InDelta(t, tt.reset, result.ResetAfter, float64(time.Microsecond))
			})
		})
	}
}
