package httplimit_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

var algorithms = []ratelimit.Algorithm{
	ratelimit.TokenBucket, ratelimit.FixedWindow, ratelimit.SlidingWindowLog, ratelimit.SlidingWindowCounter, ratelimit.LeakyBucket,
}

// Who is refused, and waits exactly Retry-After, passes: for any limit and cost.
func TestWaitingRetryAfterIsEnough(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				refused := 0
				for range 60 {
					refused += waitOut(t, algorithm)
				}
				require.Greater(t, refused, 60)
			})
		})
	}
}

// waitOut is how often one client of a random limit was refused.
func waitOut(t *testing.T, algorithm ratelimit.Algorithm) int {
	rate := 1 + rand.IntN(20)
	period := time.Millisecond + time.Duration(rand.Int64N(int64(time.Hour)>>rand.IntN(20))).Truncate(time.Microsecond)
	burst := 1 + rand.IntN(20)
	capacity := rate
	if algorithm == ratelimit.TokenBucket || algorithm == ratelimit.LeakyBucket {
		capacity = burst
	}
	var cost int
	h := httplimit.Middleware{
		Limiter: newMemory(t, algorithm, ratelimit.Per(rate, period).WithBurst(burst)),
		Key:     httplimit.ByRemoteAddr,
		Cost:    func(*http.Request) int { return cost },
	}.Handler(ok)

	refused := 0
	for range 50 {
		cost = 1 + rand.IntN(capacity)
		w := serve(h, get())
		if w.Code == http.StatusOK {
			time.Sleep(time.Duration(rand.Int64N(int64(period) / int64(rate))))
			continue
		}
		refused++
		after, err := strconv.Atoi(w.Header().Get("Retry-After"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, after, 1)
		time.Sleep(time.Duration(after) * time.Second)
		require.Equal(t, http.StatusOK, serve(h, get()).Code, "%v %d of %d per %v, burst %d", algorithm, cost, rate, period, burst)
	}
	return refused
}

// hangingLimits are Limits that answer only when their context ends.
type hangingLimits struct{}

func (hangingLimits) LimitFor(ctx context.Context, _ string) (ratelimit.Limit, error) {
	<-ctx.Done()
	return ratelimit.Limit{}, ctx.Err()
}

// A limiter that hangs costs a request no more than Timeout.
func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := newMemory(t, ratelimit.TokenBucket, hangingLimits{})
		h := httplimit.Middleware{Limiter: hangs, Key: httplimit.ByRemoteAddr, Timeout: 50 * time.Millisecond}.Handler(ok)
		began := time.Now()
		require.Equal(t, http.StatusServiceUnavailable, serve(h, get()).Code)
		require.Equal(t, 50*time.Millisecond, time.Since(began))
	})
}
