package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

const (
	steps         = 3000 // for each algorithm
	stepsOfALimit = 50   // at least a 98th of all, see below
)

// Random calls on random keys, at random times, under limits that change: every
// Result on miniredis is the one in memory. Both take their time from the
// bubble, miniredis over a connection that stays in it.
func TestMiniredisDecidesAsMemory(t *testing.T) {
	t.Parallel()
	for algorithm, newRedis := range map[ratelimit.Algorithm]func(redis.UniversalClient, ratelimit.Limits, ...ratelimit.Option) (*ratelimit.Redis, error){
		ratelimit.TokenBucket:          ratelimit.NewTokenBucket,
		ratelimit.FixedWindow:          ratelimit.NewFixedWindow,
		ratelimit.SlidingWindowLog:     ratelimit.NewSlidingWindowLog,
		ratelimit.SlidingWindowCounter: ratelimit.NewSlidingWindowCounter,
		ratelimit.LeakyBucket:          ratelimit.NewLeakyBucket,
	} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var limit ratelimit.Limit
				limits := ratelimit.LimitFunc(func(context.Context, string) (ratelimit.Limit, error) { return limit, nil })
				onRedis, err := newRedis(newClient(t), limits)
				require.NoError(t, err)
				inMemory, err := ratelimit.NewMemory(algorithm, limits)
				require.NoError(t, err)

				seed := rand.Uint64()
				random := rand.New(rand.NewPCG(seed, 0))
				answers := map[bool]int{}
				for step := range steps {
					if step%stepsOfALimit == 0 {
						limit = randomLimit(random)
						// Times are whole milliseconds, but with each limit a bit earlier in
						// theirs: miniredis drops a key at the end of its TTL, Redis and Memory
						// a millisecond later, which only another limit brings to light.
						time.Sleep(990 * time.Microsecond)
					}
					time.Sleep(randomPause(random, limit))
					call := randomCall(t, random, limit)
					want, got := call(inMemory), call(onRedis)
					require.Equal(t, want, got, "seed %d, step %d, limit %v", seed, step, limit)
					answers[got.Allowed]++
				}
				require.Greater(t, answers[true], steps/10, "seed %d", seed)
				require.Greater(t, answers[false], steps/10, "seed %d", seed)
			})
		})
	}
}

// newClient is a client of a miniredis in the bubble.
func newClient(t *testing.T) *redis.Client {
	t.Helper()
	m := miniredis.NewMiniRedis()
	t.Cleanup(m.Close)
	m.ClockTTL(true)
	rdb := redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:6379", // never dialed; a name would be looked up, outside the bubble
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
	})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	return rdb
}

func randomLimit(random *rand.Rand) ratelimit.Limit {
	periods := []time.Duration{time.Millisecond, 7 * time.Millisecond, time.Second, 17 * time.Second, time.Hour}
	return ratelimit.Limit{
		Rate:   1 + random.IntN(20),
		Period: periods[random.IntN(len(periods))],
		Burst:  random.IntN(30),
	}
}

// randomPause is often none, mostly a part of a period, at times some periods.
func randomPause(random *rand.Rand, limit ratelimit.Limit) time.Duration {
	longest := []time.Duration{0, limit.Period / time.Duration(limit.Rate), limit.Period, 3 * limit.Period}[random.IntN(4)]
	return time.Duration(random.Int64N(longest.Milliseconds()+1)) * time.Millisecond
}

// randomCall is mostly an AllowN, at times a Peek or a Reset.
func randomCall(t *testing.T, random *rand.Rand, limit ratelimit.Limit) func(ratelimit.Limiter) ratelimit.Result {
	t.Helper()
	key := fmt.Sprint("key", random.IntN(3))
	n, kind := 1+random.IntN(limit.Rate+1), random.IntN(20)
	return func(limiter ratelimit.Limiter) ratelimit.Result {
		var result ratelimit.Result
		var err error
		switch kind {
		case 0:
			err = limiter.Reset(t.Context(), key)
		case 1, 2:
			result, err = limiter.Peek(t.Context(), key)
		default:
			result, err = limiter.AllowN(t.Context(), key, n)
		}
		require.NoError(t, err)
		return result
	}
}
