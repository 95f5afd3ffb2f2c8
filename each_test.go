package ratelimit

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestAllowEach(t *testing.T) {
	t.Parallel()
	eachBase(t, func(t *testing.T, base func(Algorithm, Limits) Base) {
		var requests []Request
		for _, a := range allAlgorithms {
			requests = append(requests, Request{base(a, PerHour(3).WithBurst(3)), "key", 2})
		}
		requests = append(requests, requests...) // the same once more, which is refused
		requests = append(requests, Request{base(FixedWindow, Unlimited), "key", 9}, Request{base(FixedWindow, Per(0, time.Second)), "key", 1})
		outcomes := AllowEach(t.Context(), requests...)
		require.Len(t, outcomes, len(requests))
		for i, o := range outcomes {
			require.NoError(t, o.Err)
			require.Equal(t, i < 5 || i == 10, o.Result.Allowed, "%d", i)
			if i < 10 {
				require.Equal(t, 1, o.Result.Remaining)
			}
		}
		require.Empty(t, AllowEach(t.Context()))
	})
}

// An error of one request is none of the others', whatever it is.
func TestAllowEachFailsApart(t *testing.T) {
	t.Parallel()
	rdb := sharedRedis(t)
	good, err := NewTokenBucket(rdb, PerHour(3), WithPrefix(uniqueKey(t)))
	require.NoError(t, err)
	cause := errors.New("no plan")
	failing, err := NewFixedWindow(rdb, LimitFunc(func(context.Context, string) (Limit, error) { return Limit{}, cause }))
	require.NoError(t, err)
	away, err := NewTokenBucket(newClient(t, &redis.Options{Addr: closedPort(t), MaxRetries: -1, DialerRetries: 1}), PerHour(3))
	require.NoError(t, err)
	memory := mustMemory(t)
	require.NoError(t, rdb.SAdd(t.Context(), good.redisKey("wrong"), "member").Err())

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	outcomes := AllowEach(ctx,
		Request{good, "a", 1}, Request{good, "wrong", 1}, Request{good, "", 1}, Request{good, "b", 0}, Request{failing, "c", 1},
		Request{away, "d", 1}, Request{nil, "e", 1}, Request{new(Redis), "f", 1}, Request{memory, "g", 1}, Request{good, "a", 2})
	require.NoError(t, outcomes[0].Err)
	require.ErrorContains(t, outcomes[1].Err, "WRONGTYPE")
	require.ErrorContains(t, outcomes[1].Err, `key "wrong"`)
	require.ErrorIs(t, outcomes[2].Err, ErrInvalidKey)
	require.ErrorIs(t, outcomes[3].Err, ErrInvalidN)
	require.ErrorIs(t, outcomes[4].Err, cause)
	require.Error(t, outcomes[5].Err)
	require.ErrorContains(t, outcomes[6].Err, "request 6: the Limiter is nil")
	require.ErrorIs(t, outcomes[7].Err, errNotMade)
	require.NoError(t, outcomes[8].Err)
	require.NoError(t, outcomes[9].Err)
	require.Zero(t, outcomes[9].Result.Remaining)
	for _, i := range []int{0, 8, 9} {
		require.True(t, outcomes[i].Result.Allowed, i)
	}
}

// All requests of a client are one round trip, also right after its scripts were
// forgotten: then a few.
func TestAllowEachIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	rdb := server.Client(t)
	var requests []Request
	for i := range 100 {
		r, err := newRedis(allAlgorithms[i%5], rdb, PerHour(10).WithBurst(10), nil)
		require.NoError(t, err)
		requests = append(requests, Request{r, strconv.Itoa(i), 1})
	}
	for _, flushed := range []bool{true, false, true} {
		if flushed {
			require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		}
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		for i, o := range AllowEach(t.Context(), requests...) {
			require.NoError(t, o.Err)
			require.True(t, o.Result.Allowed, i)
		}
		calls := commandCalls(t, rdb)
		if flushed {
			require.Equal(t, "200", calls["evalsha"], "each once more")
			require.Equal(t, "5", calls["script|load"], "one for each script")
		} else {
			require.Equal(t, "100", calls["evalsha"])
		}
		require.Empty(t, calls["eval"])
	}
	r, err := requests[0].Limiter.Peek(t.Context(), "0")
	require.NoError(t, err)
	require.Equal(t, 7, r.Remaining, "each was charged once each time")
}

func TestAllowEachOnShardedClients(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, 0).Client(t)
	pipeliner, err := cluster.AutoPipeline()
	require.NoError(t, err)
	for name, rdb := range map[string]redis.UniversalClient{"cluster": cluster, "autopipeline": pipeliner, "ring": startRing(t, 3)} {
		var requests []Request
		for i := range 60 {
			r, err := newRedis(allAlgorithms[i%5], rdb, PerHour(3).WithBurst(3), []Option{WithPrefix(name)})
			require.NoError(t, err)
			requests = append(requests, Request{r, strconv.Itoa(i), 2})
		}
		for _, want := range []bool{true, false} {
			for i, o := range AllowEach(t.Context(), requests...) {
				require.NoError(t, o.Err, "%s %d", name, i)
				require.Equal(t, want, o.Result.Allowed)
			}
		}
	}
}

// Replies that were lost do not charge twice, and the context ends the call.
func TestAllowEachIsChargedOnce(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t, sharedAddr())
	rdb := newClient(t, &redis.Options{Addr: proxy.Addr(), ReadTimeout: 200 * time.Millisecond})
	r, err := NewTokenBucket(rdb, PerHour(10), WithPrefix(uniqueKey(t)))
	require.NoError(t, err)
	ask := func(ctx context.Context) []Outcome {
		return AllowEach(ctx, Request{r, "key", 1}, Request{r, "key", 1})
	}
	for _, o := range ask(t.Context()) {
		require.NoError(t, o.Err)
	}
	proxy.dropReplies(true)
	for _, o := range ask(t.Context()) {
		require.Error(t, o.Err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	for _, o := range ask(ctx) {
		require.ErrorIs(t, o.Err, context.DeadlineExceeded)
	}
	require.Less(t, time.Since(began), 150*time.Millisecond)
	proxy.dropReplies(false)
	eventually(t, 5*time.Second, func(ctx context.Context) error { return rdb.Ping(ctx).Err() })
	taken := charged(t, r, sharedRedis(t))
	require.GreaterOrEqual(t, taken, 4)
	require.LessOrEqual(t, taken, 6)
}

func TestAllowEachDoesNotWaitForAnother(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	hanging, err := NewTokenBucket(server.Client(t), PerHour(3))
	require.NoError(t, err)
	server.freeze()
	well, err := NewTokenBucket(sharedRedis(t), PerHour(3), WithPrefix(uniqueKey(t)))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	outcomes := AllowEach(ctx, Request{hanging, "a", 1}, Request{well, "b", 1})
	require.ErrorIs(t, outcomes[0].Err, context.DeadlineExceeded)
	require.NoError(t, outcomes[1].Err)
	require.True(t, outcomes[1].Result.Allowed)
}
