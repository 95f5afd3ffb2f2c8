package ratelimit

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A server that refuses to write answers what needs no writing: a refusal stays a refusal and a peek a
// peek. What would take a unit is an error that says why, neither allowed nor refused, and takes none.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		refuse func(t *testing.T, s *scene)
		accept func(t *testing.T, s *scene)
		is     func(error) bool
	}{
		"OOM": {
			refuse: func(t *testing.T, s *scene) { s.set(t, "maxmemory", "1") },
			accept: func(t *testing.T, s *scene) { s.set(t, "maxmemory", "0") },
			is:     redis.IsOOMError,
		},
		"NOREPLICAS": {
			refuse: func(t *testing.T, s *scene) { s.set(t, "min-replicas-to-write", "1") },
			accept: func(t *testing.T, s *scene) { s.set(t, "min-replicas-to-write", "0") },
			is:     redis.IsNoReplicasError,
		},
		"MISCONF": {
			args:   failingSnapshots,
			refuse: func(t *testing.T, s *scene) { require.NoError(t, s.admin.BgSave(t.Context()).Err()) },
			accept: func(t *testing.T, s *scene) { s.set(t, "stop-writes-on-bgsave-error", "no") },
			is:     isMisconfigured,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, &fault{args: c.args})
			for _, r := range s.limiters {
				for key, n := range map[string]int{"full": 1000, "used": 400} {
					result, err := r.AllowN(t.Context(), key, n)
					require.NoError(t, err)
					require.True(t, result.Allowed)
				}
				_, err := r.Allow(t.Context(), "full") // mends the TTL where Redis 7.0 has taken its time to set it
				require.NoError(t, err)
			}

			c.refuse(t, s)
			s.requireRefusal(t, c.is)
			for _, r := range s.limiters {
				eventually(t, 5*time.Second, func(ctx context.Context) error {
					result, err := r.Allow(ctx, "full")
					require.False(t, result.Allowed)
					require.Equal(t, err == nil, result.RetryAfter > 0)
					return err // of a mending, as above
				})
				for key, left := range map[string]int{"full": 0, "used": 600, "new": 1000} {
					result, err := r.Peek(t.Context(), key)
					require.NoError(t, err, r.algorithm)
					require.Equal(t, left, result.Remaining)
				}
				for _, key := range []string{"used", "new"} {
					result, err := r.Allow(t.Context(), key)
					require.True(t, c.is(err), "%s: %+v, %v", r.algorithm, result, err)
					require.Zero(t, result)
				}
			}

			c.accept(t, s)
			for _, r := range s.limiters {
				for key, left := range map[string]int{"used": 599, "new": 999} {
					result, err := r.Allow(t.Context(), key)
					require.NoError(t, err, r.algorithm)
					require.Equal(t, left, result.Remaining, "the calls without a decision took units")
				}
			}
		})
	}
}

// A call that meets the old master, now a replica, is decided by the new one as soon as the client is led
// there: within the same call.
func TestReadOnlyIsRetriedOnTheNewMaster(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	replica := startReplica(t, master)
	proxy := startProxy(t, replica.Addr())
	for _, a := range allAlgorithms {
		rdb := newClient(t, &redis.Options{Addr: proxy.Addr()})
		refused := 0
		rdb.AddHook(processHook(func(next redis.ProcessHook) redis.ProcessHook {
			return func(ctx context.Context, cmd redis.Cmder) error {
				err := next(ctx, cmd)
				if redis.IsReadOnlyError(err) {
					refused++
					proxy.setTarget(master.Addr())
				}
				return err
			}
		}))
		r, err := newRedis(a, rdb, faultLimit, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		result, err := r.Allow(ctx, "key")
		cancel()
		require.NoError(t, err)
		require.Equal(t, 999, result.Remaining)
		require.Equal(t, 1, refused)
		proxy.setTarget(replica.Addr())
	}
}
