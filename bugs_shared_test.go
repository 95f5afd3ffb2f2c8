package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// What has gone wrong elsewhere where many share a limit: see also TestNeverOverTheLimit, TestChargedOnce and
// TestShardedClients.

// A limit that needs no state sends no key anywhere, also on a cluster.
func TestLimitsThatAskNothing(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{closedPort(t)}})
	t.Cleanup(func() { _ = cluster.Close() })
	for _, rdb := range []redis.UniversalClient{cluster, newClient(t, &redis.Options{Addr: closedPort(t)})} {
		for _, a := range allAlgorithms {
			limit := Unlimited
			r, err := newRedis(a, rdb, LimitFunc(func(context.Context, string) (Limit, error) { return limit, nil }), nil)
			require.NoError(t, err)
			result, err := r.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.True(t, result.Allowed)
			limit = PerSecond(0)
			result, err = r.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.False(t, result.Allowed)
			_, err = r.Allow(t.Context(), "")
			require.ErrorIs(t, err, ErrInvalidKey)
		}
	}
}

// Reset is one UNLINK of one key, however many there are and whatever the key looks like.
func TestResetIsOneCommand(t *testing.T) {
	t.Parallel()
	rdb := startServer(t).Client(t)
	for _, a := range allAlgorithms {
		r, err := newRedis(a, rdb, PerHour(3), nil)
		require.NoError(t, err)
		for _, key := range []string{"a*", "a", "ab", "?", "[ab]", "*"} {
			_, err = r.Allow(t.Context(), key)
			require.NoError(t, err)
		}
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		require.NoError(t, r.Reset(t.Context(), "a*"))
		require.NoError(t, r.Reset(t.Context(), "*"))
		calls := commandCalls(t, rdb)
		require.Equal(t, "2", calls["unlink"])
		for _, command := range []string{"scan", "keys", "eval", "evalsha"} {
			require.NotContains(t, calls, command)
		}
		for _, key := range []string{"a", "ab", "?", "[ab]"} {
			result, err := r.Peek(t.Context(), key)
			require.NoError(t, err)
			require.NotZero(t, result.ResetAfter, "%s is forgotten", key)
		}
		require.EqualValues(t, 4, rdb.DBSize(t.Context()).Val())
		require.NoError(t, rdb.FlushAll(t.Context()).Err()) // a server of this test's own
	}
}

// 400 callers at the same moment on one key cost 400 commands at most: nobody has to try again, or fails.
func TestCrowdOnOneKey(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	rdb := newClient(t, &redis.Options{Addr: server.Addr(), PoolSize: 100, PoolTimeout: time.Minute})
	for _, a := range allAlgorithms {
		for name, options := range map[string][]Option{"together": nil, "apart": {WithoutCoalescing()}} {
			r, err := newRedis(a, rdb, PerDay(100).WithBurst(100), append(options, WithPrefix(name)))
			require.NoError(t, err)
			_, err = r.Peek(t.Context(), "key") // the script is known from here on
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
			began := time.Now()
			require.EqualValues(t, 100, together(t, 400, func() (Result, error) { return r.Allow(t.Context(), "key") }))
			calls := commandCalls(t, rdb)["evalsha"]
			t.Logf("%s, %s: 400 callers on one key decided in %v by %s commands", a, name, round(time.Since(began)), calls)
			if options != nil {
				require.Equal(t, "400", calls)
				continue
			}
			n, err := strconv.Atoi(calls)
			require.NoError(t, err)
			require.Less(t, n, 200)
		}
	}
}

// together lets callers call at the same moment, and counts those who are allowed.
func together(t *testing.T, callers int, call func() (Result, error)) (allowed int64) {
	t.Helper()
	var wg sync.WaitGroup
	var n atomic.Int64
	start, errs := make(chan struct{}), make([]error, callers)
	for i := range callers {
		wg.Go(func() {
			<-start
			result, err := call()
			errs[i] = err
			if result.Allowed {
				n.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	return n.Load()
}

// The first calls ever, by limiters that are new too, on a server that knows neither the script nor the key:
// not one unit too many, and the key expires.
func TestFirstCallsAreExact(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	rdb := server.Client(t)
	for _, a := range allAlgorithms {
		for range 5 {
			require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
			prefix := WithPrefix(uniqueKey(t))
			allowed := together(t, 50, func() (Result, error) {
				r, err := newRedis(a, rdb, PerDay(10).WithBurst(10), []Option{prefix})
				if err != nil {
					return Result{}, err
				}
				return r.Allow(t.Context(), "key")
			})
			require.EqualValues(t, 10, allowed, a)
		}
		for _, key := range rdb.Keys(t.Context(), "*").Val() {
			require.Positive(t, rdb.PTTL(t.Context(), key).Val(), key)
		}
	}
}

// A limit that is raised under load admits the difference at once, and no more; one that is cut, nothing.
func TestChangedLimitIsExactUnderLoad(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		var units atomic.Int64
		limits := LimitFunc(func(context.Context, string) (Limit, error) {
			return PerDay(int(units.Load())).WithBurst(int(units.Load())), nil
		})
		r, err := newRedis(a, sharedRedis(t), limits, []Option{WithPrefix(uniqueKey(t))})
		require.NoError(t, err)
		crowd := func() int64 {
			return together(t, 60, func() (Result, error) { return r.Allow(t.Context(), "key") })
		}
		units.Store(20)
		require.EqualValues(t, 20, crowd(), a)
		units.Store(10)
		require.Zero(t, crowd(), a)
		units.Store(30)
		more := crowd()
		if a == TokenBucket || a == LeakyBucket {
			// A bucket holds what is there, or what is in use, as its documentation says of a changed burst.
			require.LessOrEqual(t, more, int64(30), a)
			continue
		}
		require.EqualValues(t, 10, more, a)
	}
}

// What callers were admitted is what is charged, to the unit, whatever they ask for and whoever peeks meanwhile.
func TestAdmittedIsCharged(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, PerDay(1000).WithBurst(1000), func(t *testing.T, r *Redis) {
		var admitted atomic.Int64
		together(t, 64, func() (Result, error) {
			for range 20 {
				n := 1 + rand.IntN(3)
				result, err := r.AllowN(t.Context(), "key", n)
				if err != nil {
					return result, err
				}
				if result.Allowed {
					admitted.Add(int64(n))
				}
				if _, err := r.Peek(t.Context(), "key"); err != nil {
					return result, err
				}
			}
			return Result{}, nil
		})
		require.EqualValues(t, charged(t, r, sharedRedis(t)), admitted.Load())
		require.Positive(t, admitted.Load())
	})
}

// A process that is killed in the middle of its calls holds nothing: its units come back with time, and no key
// is left.
func TestCrashedCallerHoldsNothing(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, Per(20, 200*time.Millisecond).WithBurst(20), func(t *testing.T, r *Redis) {
		prefix, _, _ := strings.Cut(r.prefix, ":")
		text, err := json.Marshal(hammering{Algorithm: r.algorithm, Prefix: prefix, Limit: r.limits.(Limit), Callers: 8, Calls: 1 << 30})
		require.NoError(t, err)
		cmd := childCommand(t.Context(), "hammer")
		cmd.Env = append(cmd.Env, hammeringEnv+"="+string(text))
		require.NoError(t, cmd.Start())
		eventually(t, 20*time.Second, func(ctx context.Context) error {
			result, err := r.Peek(ctx, "key")
			if err == nil && result.Allowed {
				err = errors.New(strconv.Itoa(result.Remaining) + " units are left")
			}
			return err
		})
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		eventually(t, 5*time.Second, func(context.Context) error {
			if keys := keysOf(t, r); len(keys) > 0 {
				return errors.New("there is " + keys[0])
			}
			return nil
		})
		result, err := r.AllowN(t.Context(), "key", 20)
		require.NoError(t, err)
		require.True(t, result.Allowed)
	})
}
