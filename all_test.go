package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// newBases makes limiters of each kind that can be decided together.
var newBases = map[string]func(t *testing.T) func(Algorithm, Limits) Base{
	"redis": func(t *testing.T) func(Algorithm, Limits) Base {
		rdb := sharedRedis(t)
		return func(a Algorithm, limits Limits) Base {
			r, err := newRedis(a, rdb, limits, []Option{WithPrefix(uniqueKey(t))})
			require.NoError(t, err)
			return r
		}
	},
	"memory": func(t *testing.T) func(Algorithm, Limits) Base {
		return func(a Algorithm, limits Limits) Base {
			m, err := NewMemory(a, limits)
			require.NoError(t, err)
			return m
		}
	},
}

func eachBase(t *testing.T, f func(t *testing.T, base func(Algorithm, Limits) Base)) {
	t.Helper()
	for name, newBase := range newBases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newBase(t))
		})
	}
}

func TestAll(t *testing.T) {
	t.Parallel()
	eachBase(t, func(t *testing.T, base func(Algorithm, Limits) Base) {
		minute, hour, day := base(TokenBucket, PerHour(5)), base(SlidingWindowCounter, PerDay(7)), base(FixedWindow, PerDay(20))
		all, err := All(minute, hour, day)
		require.NoError(t, err)

		r, err := all.AllowN(t.Context(), "key", 3)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Equal(t, PerHour(5), r.Limit, "the one with the least left")
		require.Equal(t, 2, r.Remaining)

		r, each, err := all.AllowNResults(t.Context(), "key", 6)
		require.NoError(t, err)
		require.Equal(t, Result{Limit: PerHour(5), RetryAfter: Never}.RetryAfter, r.RetryAfter, "the longest wait decides")
		require.Equal(t, []bool{false, false, true}, []bool{each[0].Allowed, each[1].Allowed, each[2].Allowed})
		require.Equal(t, []int{2, 4, 17}, []int{each[0].Remaining, each[1].Remaining, each[2].Remaining})
		for i, l := range []Base{minute, hour, day} {
			requireRemaining(t, []int{2, 4, 17}[i], l, "key")
		}

		peeked, err := all.Peek(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, 2, peeked.Remaining)
		require.NoError(t, all.Reset(t.Context(), "key"))
		for i, l := range []Base{minute, hour, day} {
			requireRemaining(t, []int{5, 7, 20}[i], l, "key")
		}
	})
}

func TestAllowAllOfDifferentKeys(t *testing.T) {
	t.Parallel()
	eachBase(t, func(t *testing.T, base func(Algorithm, Limits) Base) {
		users, everybody := base(SlidingWindowLog, PerHour(2)), base(LeakyBucket, PerHour(3).WithBurst(3))
		ask := func(user string) (Result, []Result) {
			r, each, err := AllowAll(t.Context(),
				Request{Limiter: users, Key: user, N: 1}, Request{Limiter: users, Key: "tenant", N: 1}, Request{Limiter: everybody, Key: "all", N: 2})
			require.NoError(t, err)
			return r, each
		}
		r, each := ask("a")
		require.True(t, r.Allowed)
		require.Equal(t, 1, r.Remaining)
		require.Len(t, each, 3)
		r, each = ask("b")
		require.False(t, r.Allowed, "there is one of the two left that everybody has")
		require.Equal(t, []bool{true, true, false}, []bool{each[0].Allowed, each[1].Allowed, each[2].Allowed})
		requireRemaining(t, 2, users, "b")
		requireRemaining(t, 1, users, "tenant")
	})
}

// A limit that blocks or has no bound asks nothing of its state, and holds for all.
func TestAllWithFixedLimits(t *testing.T) {
	t.Parallel()
	eachBase(t, func(t *testing.T, base func(Algorithm, Limits) Base) {
		limited := base(TokenBucket, PerHour(5))
		blocked, err := All(limited, base(FixedWindow, Per(0, time.Second)))
		require.NoError(t, err)
		r, each, err := blocked.AllowNResults(t.Context(), "key", 1)
		require.NoError(t, err)
		require.Equal(t, Never, r.RetryAfter)
		require.True(t, each[0].Allowed)
		requireRemaining(t, 5, limited, "key")

		open, err := All(base(FixedWindow, Unlimited), limited)
		require.NoError(t, err)
		r, err = open.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Equal(t, 4, r.Remaining)
		none, err := All(base(FixedWindow, Unlimited), base(FixedWindow, Unlimited))
		require.NoError(t, err)
		r, err = none.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, Unlimited, r.Limit)
	})
}

func TestAllOfBadInput(t *testing.T) {
	t.Parallel()
	rdb := sharedRedis(t)
	one, err := NewTokenBucket(rdb, PerSecond(1))
	require.NoError(t, err)
	same, err := NewTokenBucket(rdb, PerHour(1))
	require.NoError(t, err)
	elsewhere, err := NewFixedWindow(newClient(t, &redis.Options{Addr: sharedAddr()}), PerSecond(1))
	require.NoError(t, err)
	memory, err := NewMemory(TokenBucket, PerSecond(1))
	require.NoError(t, err)
	for want, limiters := range map[string][]Base{
		"there must be at least 1":   {},
		"limiter 1 is nil":           {one, (*Redis)(nil)},
		"limiter 0 is nil":           {nil, one},
		"limiters 0 and 1 count":     {one, same},
		"limiters 0 and 2 count":     {memory, mustMemory(t), memory},
		"limiter 1 has another":      {one, elsewhere},
		"limiter 1 is a *ratelimit.": {one, memory},
		"another Redis client":       {memory, one},
	} {
		_, err := All(limiters...)
		require.ErrorContains(t, err, want)
		var requests []Request
		for _, l := range limiters {
			requests = append(requests, Request{Limiter: l, Key: "key", N: 1})
		}
		_, _, err = AllowAll(t.Context(), requests...)
		require.Error(t, err, want)
	}
	_, _, err = AllowAll(t.Context(), Request{one, "a", 1}, Request{one, "b", 1}, Request{one, "a", 2})
	require.ErrorContains(t, err, "requests 0 and 2 count the same key")
	_, _, err = AllowAll(t.Context(), Request{memory, "a", 1}, Request{memory, "a", 1})
	require.ErrorContains(t, err, "requests 0 and 1 count the same key")
	_, _, err = AllowAll(t.Context(), Request{one, "a", 1}, Request{one, "b", 0})
	require.ErrorIs(t, err, ErrInvalidN)
	_, _, err = AllowAll(t.Context(), Request{Limiter: new(Redis), Key: "a", N: 1})
	require.ErrorIs(t, err, errNotMade)
	_, err = new(Combined).Allow(t.Context(), "key")
	require.ErrorIs(t, err, errNotMade)
	requireRemaining(t, 1, one, "a")

	cause := errors.New("no plan")
	failing, err := NewFixedWindow(rdb, LimitFunc(func(context.Context, string) (Limit, error) { return Limit{}, cause }))
	require.NoError(t, err)
	_, _, err = AllowAll(t.Context(), Request{one, "a", 1}, Request{failing, "b", 1})
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, `key "b"`)
	requireRemaining(t, 1, one, "a")
}

func mustMemory(t *testing.T) *Memory {
	t.Helper()
	m, err := NewMemory(FixedWindow, PerSecond(1))
	require.NoError(t, err)
	return m
}

// What one refuses leaves the others' keys as they were, byte for byte.
func TestAllRefusedChangesNothing(t *testing.T) {
	t.Parallel()
	rdb := sharedRedis(t)
	for _, refusing := range allAlgorithms {
		var all []Base
		for _, a := range allAlgorithms {
			limit := PerHour(100).WithBurst(100)
			if a == refusing {
				limit = PerHour(2).WithBurst(2)
			}
			r, err := newRedis(a, rdb, limit, []Option{WithPrefix(uniqueKey(t))})
			require.NoError(t, err)
			all = append(all, r)
		}
		combined, err := All(all...)
		require.NoError(t, err)
		_, err = combined.AllowN(t.Context(), "key", 2)
		require.NoError(t, err)
		before := dumps(t, rdb, all)
		for range 3 {
			r, err := combined.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.False(t, r.Allowed)
		}
		require.Equal(t, before, dumps(t, rdb, all), refusing)
	}
}

func dumps(t *testing.T, rdb *redis.Client, limiters []Base) (dumps []string) {
	t.Helper()
	for _, l := range limiters {
		dump, err := rdb.Dump(t.Context(), l.(*Redis).redisKey("key")).Result()
		require.NoError(t, err)
		dumps = append(dumps, dump)
	}
	return dumps
}

// Several limits at once are one command.
func TestAllIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	rdb := startServer(t).Client(t)
	a, err := NewTokenBucket(rdb, PerSecond(1000))
	require.NoError(t, err)
	b, err := NewSlidingWindowCounter(rdb, PerHour(100_000))
	require.NoError(t, err)
	c, err := NewFixedWindow(rdb, PerDay(1_000_000))
	require.NoError(t, err)
	all, err := All(a, b, c)
	require.NoError(t, err)
	_, err = all.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	for range 10 {
		_, err = all.Allow(t.Context(), "key")
		require.NoError(t, err)
		_, _, err = AllowAll(t.Context(), Request{a, "user", 1}, Request{b, "tenant", 1}, Request{c, "all", 1})
		require.NoError(t, err)
	}
	calls := commandCalls(t, rdb)
	require.Equal(t, "20", calls["evalsha"])
	require.Empty(t, calls["eval"])
}

// 64 goroutines in each of three processes against three limits at once: what is
// admitted is what the tightest has, and what each has recorded.
func TestAllNeverOverTheLimit(t *testing.T) {
	t.Parallel()
	limits := []hammering{
		{Algorithm: TokenBucket, Limit: PerDay(1).WithBurst(1000)},
		{Algorithm: FixedWindow, Limit: PerDay(700)},
		{Algorithm: SlidingWindowCounter, Limit: PerDay(900)},
	}
	h := hammering{Prefix: uniqueKey(t), All: limits, Callers: 64, Calls: 3334}
	require.EqualValues(t, 700, hammer(t, &h))
	for i, left := range []int{300, 0, 200} {
		r, err := newRedis(limits[i].Algorithm, sharedRedis(t), limits[i].Limit, []Option{WithPrefix(h.Prefix)})
		require.NoError(t, err)
		requireRemaining(t, left, r, "key")
	}
}

// Callers that ask for the same limits in any order do not block each other.
func TestAllInMemoryDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	a, b := mustMemory(t), mustMemory(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 2000 {
				requests := []Request{{a, "key", 1}, {b, "key", 1}, {a, strconv.Itoa(i), 1}}
				if i%2 == 0 {
					requests[0], requests[1] = requests[1], requests[0]
				}
				if _, _, err := AllowAll(t.Context(), requests...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// On clients that shard by key the keys must share a hash tag.
func TestAllOnShardedClients(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, 0).Client(t)
	pipeliner, err := cluster.AutoPipeline()
	require.NoError(t, err)
	for name, rdb := range map[string]redis.UniversalClient{"cluster": cluster, "autopipeline": pipeliner, "ring": startRing(t, 3)} {
		users, err := NewTokenBucket(rdb, PerHour(3), WithPrefix(name))
		require.NoError(t, err)
		tenants, err := NewFixedWindow(rdb, PerHour(5), WithPrefix(name))
		require.NoError(t, err)
		for i := range 20 {
			tag := fmt.Sprintf("{tenant%d}", i)
			for _, want := range []bool{true, true, true, false} {
				r, _, err := AllowAll(t.Context(), Request{users, tag + "user", 1}, Request{tenants, tag, 1})
				require.NoError(t, err, name)
				require.Equal(t, want, r.Allowed)
			}
			requireRemaining(t, 2, tenants, tag)
		}
		for i := range 10 {
			user, tenant := fmt.Sprintf("user%d", i), fmt.Sprintf("tenant%d", i)
			if _, _, err = AllowAll(t.Context(), Request{users, user, 1}, Request{tenants, tenant, 1}); err != nil {
				break // two keys may lie in one slot by chance, where that is not checked beforehand
			}
		}
		require.ErrorContains(t, err, "hash tag", name)
		require.ErrorContains(t, err, ":{user", name)
		require.ErrorContains(t, err, ":{tenant", name)

		// Limits on one key need nothing.
		all, err := All(users, tenants)
		require.NoError(t, err)
		for _, key := range oddKeys {
			r, err := all.Allow(t.Context(), key)
			require.NoError(t, err, "%.80q", key)
			require.True(t, r.Allowed)
		}
		// Nor do reservations.
		for _, key := range oddKeys {
			reservation, _, err := users.Reserve(t.Context(), key, 1)
			require.NoError(t, err, "%.80q", key)
			r, err := users.Settle(t.Context(), reservation, 0)
			require.NoError(t, err, "%.80q", key)
			require.Equal(t, 2, r.Remaining)
		}
	}
}

func TestAllTellsTheKeysOfAnError(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, &redis.Options{Addr: closedPort(t), MaxRetries: -1, DialerRetries: 1})
	a, err := NewTokenBucket(rdb, PerSecond(1))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _, err = AllowAll(ctx, Request{a, "one", 1}, Request{a, strings.Repeat("x", 10_000), 1})
	require.ErrorContains(t, err, ":{one}")
	require.Less(t, len(err.Error()), 1000)
}

func TestAllTellsOfLimitersNotMade(t *testing.T) {
	t.Parallel()
	_, err := All(new(Redis))
	require.ErrorIs(t, err, errNotMade)
	_, err = All(new(Memory))
	require.ErrorIs(t, err, errNotMade)
	_, _, err = AllowAll(t.Context(), Request{new(Redis), "key", 1})
	require.ErrorIs(t, err, errNotMade)
}

func TestAllOfLongKeysWithATag(t *testing.T) {
	t.Parallel()
	ring := startRing(t, 3)
	a, err := NewTokenBucket(ring, PerHour(3), WithPrefix(uniqueKey(t)))
	require.NoError(t, err)
	_, _, err = AllowAll(t.Context(), Request{a, "{tenant7}", 1}, Request{a, "{tenant7}" + strings.Repeat("x", 300), 1})
	require.ErrorContains(t, err, "256 bytes")
}
