package ratelimit

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// requireAll makes calls at the same time, none of which may fail.
func requireAll(t *testing.T, calls int, name string, call func() error) {
	t.Helper()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if err := call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
}

// Refused calls do not count: when the limit is raised, there is as much room as if they had not been
// made. The token bucket keeps tokens, of which a raised limit makes none.
func TestRefusedCallsAreNotCounted(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, s *subject) {
		admitted := func() (n int) {
			for range 50 {
				r, err := s.Allow(t.Context(), "key")
				require.NoError(t, err)
				if r.Allowed {
					n++
				}
			}
			return n
		}
		*s.limit = Per(10, 10*time.Hour).WithBurst(10)
		require.Equal(t, 10, admitted())
		*s.limit = Per(20, 10*time.Hour).WithBurst(20)
		if s.algorithm != TokenBucket {
			require.Equal(t, 10, admitted())
			return
		}
		require.Zero(t, admitted())
		s.pass(time.Hour)
		require.Equal(t, 2, admitted())
	})
}

// A key that is blocked for good keeps nothing of it: Reset is no error, and another limit begins anew.
func TestBlockedKeys(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, s *subject) {
		*s.limit = Per(0, time.Hour)
		for range 3 {
			r, err := s.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.Equal(t, Result{Limit: *s.limit, RetryAfter: Never}, r)
		}
		require.NoError(t, s.Reset(t.Context(), "key"))
		*s.limit = Per(5, time.Hour).WithBurst(5)
		r, err := s.AllowN(t.Context(), "key", 5)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		*s.limit = Per(0, time.Hour)
		require.NoError(t, s.Reset(t.Context(), "key"))
		*s.limit = Per(5, time.Hour).WithBurst(5)
		r, err = s.Peek(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, 5, r.Remaining)
	})
}

// Limiters may be made again and again, as when a configuration is loaded: they use the client they are
// given, keep nothing running, go on with the state that is there, and obey the new limit at once,
// whichever of them answered before.
func TestLimitersMadeAgain(t *testing.T) {
	server := startServer(t)
	rdb := newClient(t, &redis.Options{Addr: server.Addr()})
	for _, a := range allAlgorithms {
		first, err := newRedis(a, rdb, Per(50, maxPeriod).WithBurst(50), nil)
		require.NoError(t, err)
		_, err = first.Allow(t.Context(), "key")
		require.NoError(t, err)
		connections, err := server.info(t.Context(), "Clients", "connected_clients")
		require.NoError(t, err)
		goroutines := runtime.NumGoroutine()

		limiters := []*Redis{first}
		for i := range 100 {
			r, err := newRedis(a, rdb, Per(50, maxPeriod).WithBurst(50), nil)
			require.NoError(t, err)
			limiters = append(limiters, r)
			result, err := r.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.Equal(t, max(0, 48-i), result.Remaining, a)
			require.Equal(t, i < 49, result.Allowed)
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+5)
		after, err := server.info(t.Context(), "Clients", "connected_clients")
		require.NoError(t, err)
		require.Equal(t, connections, after)

		lower, err := newRedis(a, rdb, Per(10, maxPeriod).WithBurst(10), nil)
		require.NoError(t, err)
		for _, r := range append(limiters, lower) {
			result, err := r.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.False(t, result.Allowed)
		}
		require.NoError(t, lower.Reset(t.Context(), "key"))
		for _, r := range limiters {
			result, err := r.Peek(t.Context(), "key")
			require.NoError(t, err)
			require.Equal(t, 50, result.Remaining)
		}
	}
}
