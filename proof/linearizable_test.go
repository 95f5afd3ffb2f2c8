package proof

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

// histories is how many are checked for each limiter.
const histories = 1000

var algorithms = map[ratelimit.Algorithm]func(redis.UniversalClient, ratelimit.Limits, ...ratelimit.Option) (*ratelimit.Redis, error){
	ratelimit.TokenBucket:          ratelimit.NewTokenBucket,
	ratelimit.FixedWindow:          ratelimit.NewFixedWindow,
	ratelimit.SlidingWindowLog:     ratelimit.NewSlidingWindowLog,
	ratelimit.SlidingWindowCounter: ratelimit.NewSlidingWindowCounter,
	ratelimit.LeakyBucket:          ratelimit.NewLeakyBucket,
}

func TestRedisIsLinearizable(t *testing.T) {
	t.Parallel()
	for a, constructor := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			l, err := constructor(sharedRedis, limitOfCall, ratelimit.WithPrefix(unique()))
			require.NoError(t, err)
			requireLinearizable(t, l, memory(a))
		})
	}
}

func TestMemoryIsLinearizable(t *testing.T) {
	t.Parallel()
	for a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			l, err := ratelimit.NewMemory(a, limitAfterOthers)
			require.NoError(t, err)
			requireLinearizable(t, l, memory(a))
		})
	}
}

// memory makes the twins of limiters: each has seen no call.
func memory(a ratelimit.Algorithm) func() ratelimit.Limiter {
	return func() ratelimit.Limiter {
		m, err := ratelimit.NewMemory(a, limitOfCall)
		if err != nil {
			panic(err) // the limits come with the calls, so there is none to be wrong
		}
		return m
	}
}

// requireLinearizable records histories of l, each with a key of its own, and
// requires that all are such as a twin could have had. The limits of l and of
// the twins are those of the call; in every other history they change.
func requireLinearizable(t *testing.T, l ratelimit.Limiter, newTwin func() ratelimit.Limiter) {
	t.Helper()
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	began := time.Now()
	var operations, overlapping int
	for i := range histories {
		key := unique()
		h, err := record(t.Context(), l, key, randomPlan(random, i%2 == 1))
		require.NoError(t, err)
		require.NoError(t, l.Reset(t.Context(), key)) // else it would stay for a year
		require.Equal(t, porcupine.Ok, h.check(newTwin), "history %d is not linearizable, or could not be checked:%v", i, h)
		operations += len(h.operations)
		overlapping += h.overlapping()
	}
	t.Logf("%d histories, %d operations, of which %d overlapped with another, in %v",
		histories, operations, overlapping, time.Since(began).Round(time.Millisecond))
	require.Greater(t, overlapping, operations/2, "the calls hardly ran at the same time: that shows nothing")
}

// unique is a key, or a prefix, that nobody else has.
func unique() string { return "proof-" + strconv.FormatUint(rand.Uint64(), 36) }
