package proof

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

// The check finds a limiter that is right for one caller and wrong for many. It
// finds nothing wrong with it where there is one caller: so it is the calls at
// the same time that it finds.
func TestCheckFindsARace(t *testing.T) {
	t.Parallel()
	const tries = 200
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	twin, found := memory(ratelimit.FixedWindow), 0
	for range tries {
		plan := randomPlan(random, false)
		h, err := record(t.Context(), readThenWrite{}, unique(), plan)
		require.NoError(t, err)
		result := h.check(twin)
		require.NotEqual(t, porcupine.Unknown, result, "the check took too long:%v", h)
		if result == porcupine.Illegal {
			found++
		}

		h, err = record(t.Context(), readThenWrite{}, unique(), [][]call{plan[0]})
		require.NoError(t, err)
		require.Equal(t, porcupine.Ok, h.check(twin), "one caller alone:%v", h)
	}
	t.Logf("%d of %d histories are not linearizable", found, tries)
	require.Positive(t, found)
}

// readThenWrite is a fixed window as one is often written: it reads the count,
// decides, and writes it back, and takes no care of who does so meanwhile.
type readThenWrite struct{}

func (l readThenWrite) Allow(ctx context.Context, key string) (ratelimit.Result, error) {
	return l.AllowN(ctx, key, 1)
}

func (l readThenWrite) AllowN(ctx context.Context, key string, n int) (ratelimit.Result, error) {
	return l.decide(ctx, key, n, sharedRedis.Set)
}

func (l readThenWrite) Peek(ctx context.Context, key string) (ratelimit.Result, error) {
	return l.decide(ctx, key, 1, nil)
}

func (readThenWrite) Reset(ctx context.Context, key string) error {
	return sharedRedis.Del(ctx, key).Err()
}

func (readThenWrite) decide(
	ctx context.Context, key string, n int,
	write func(context.Context, string, any, time.Duration) *redis.StatusCmd,
) (r ratelimit.Result, err error) {
	if r.Limit, err = limitOfCall(ctx, key); err != nil {
		return r, err
	}
	count, err := sharedRedis.Get(ctx, key).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return r, err
	}
	switch {
	case n > r.Limit.Rate:
		r.RetryAfter = ratelimit.Never
	case count+n > r.Limit.Rate:
		r.RetryAfter = period
	default:
		r.Allowed = true
		if write != nil {
			count += n
			if err := write(ctx, key, count, time.Minute).Err(); err != nil {
				return r, err
			}
		}
	}
	if count > 0 {
		r.ResetAfter = period
	}
	r.Remaining = r.Limit.Rate - count
	return r, nil
}

// What the check takes for right and for wrong, by histories that were thought up.
func TestCheck(t *testing.T) {
	t.Parallel()
	limit := ratelimit.Per(1, period)
	allow, peek, reset := call{method: "Allow", limit: limit}, call{method: "Peek", limit: limit}, call{method: "Reset", limit: limit}
	fresh := ratelimit.Result{Allowed: true, Limit: limit, Remaining: 1}
	taken := ratelimit.Result{Allowed: true, Limit: limit, ResetAfter: period}
	refused := ratelimit.Result{Limit: limit, RetryAfter: period, ResetAfter: period}
	early := refused
	early.RetryAfter -= time.Hour
	never := refused
	never.RetryAfter = ratelimit.Never

	at := func(c call, r ratelimit.Result, called, returned int64) porcupine.Operation {
		return porcupine.Operation{Input: c, Output: r, Call: called, Return: returned}
	}
	for name, c := range map[string]struct {
		want       porcupine.CheckResult
		operations []porcupine.Operation
	}{
		"one of two at the same time gets the unit": {porcupine.Ok, []porcupine.Operation{
			at(allow, refused, 0, 3), at(allow, taken, 1, 2),
		}},
		"both get it": {porcupine.Illegal, []porcupine.Operation{
			at(allow, taken, 0, 3), at(allow, taken, 1, 2),
		}},
		"neither gets it": {porcupine.Illegal, []porcupine.Operation{
			at(allow, refused, 0, 3), at(allow, refused, 1, 2),
		}},
		"a peek does not see it taken meanwhile": {porcupine.Ok, []porcupine.Operation{
			at(allow, taken, 0, 3), at(peek, fresh, 1, 2),
		}},
		"a peek does not see it taken before": {porcupine.Illegal, []porcupine.Operation{
			at(allow, taken, 0, 1), at(peek, fresh, 2, 3),
		}},
		"a peek takes it": {porcupine.Illegal, []porcupine.Operation{
			at(peek, taken, 0, 1), at(allow, refused, 2, 3),
		}},
		"a reset between two": {porcupine.Ok, []porcupine.Operation{
			at(allow, taken, 0, 1), at(reset, ratelimit.Result{}, 2, 5), at(allow, taken, 3, 4),
		}},
		"a reset after both": {porcupine.Illegal, []porcupine.Operation{
			at(allow, taken, 0, 1), at(allow, taken, 2, 3), at(reset, ratelimit.Result{}, 4, 5),
		}},
		"a reset that does nothing": {porcupine.Illegal, []porcupine.Operation{
			at(allow, taken, 0, 1), at(reset, ratelimit.Result{}, 2, 3), at(allow, refused, 4, 5),
		}},
		"an hour too early": {porcupine.Illegal, []porcupine.Operation{
			at(allow, taken, 0, 1), at(allow, early, 2, 3),
		}},
		"never, where it is a year": {porcupine.Illegal, []porcupine.Operation{
			at(allow, taken, 0, 1), at(allow, never, 2, 3),
		}},
	} {
		h := history{began: time.Now(), operations: c.operations}
		require.Equal(t, c.want, h.check(memory(ratelimit.FixedWindow)), name)
	}
}
