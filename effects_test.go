package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A refused call and a peek leave the key, and when it ends, as they were.
func TestRefusalsAndPeeksChangeNothing(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, PerHour(10).WithBurst(10), func(t *testing.T, r *Redis) {
		ctx, rdb := t.Context(), sharedRedis(t)
		_, err := r.AllowN(ctx, "key", 4)
		require.NoError(t, err)
		key := r.redisKey("key")
		state := func() (string, int64) {
			dump, err := rdb.Dump(ctx, key).Result()
			require.NoError(t, err)
			deadline, err := readDeadline.Run(ctx, rdb, []string{key}).Int64()
			require.NoError(t, err)
			return dump, deadline
		}
		dump, deadline := state()
		for range 20 {
			result, err := r.AllowN(ctx, "key", 7)
			require.NoError(t, err)
			require.False(t, result.Allowed)
			result, err = r.AllowN(ctx, "key", 11)
			require.NoError(t, err)
			require.Equal(t, Never, result.RetryAfter)
			result, err = r.Peek(ctx, "key")
			require.NoError(t, err)
			require.True(t, result.Allowed)
		}
		after, until := state()
		require.Equal(t, dump, after)
		require.Equal(t, deadline, until)
	})
}

// A refusal or a peek of a key that was never used does not make it.
func TestNothingIsKeptForNothing(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, PerHour(10).WithBurst(10), func(t *testing.T, r *Redis) {
		_, err := r.AllowN(t.Context(), "key", 11)
		require.NoError(t, err)
		_, err = r.Peek(t.Context(), "key")
		require.NoError(t, err)
		require.Empty(t, keysOf(t, r))
	})
}

// Every key that is written lives, but not longer than its state counts.
func TestEveryKeyExpires(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			c, rdb := seeded(t), sharedRedis(t)
			roundedUp := int64(1)
			if !freezesTime() {
				roundedUp = 2 // PEXPIRE may count from a later ms than the script
			}
			for range 300 {
				l := c.limit(a)
				r, err := newRedis(a, rdb, l, []Option{WithPrefix(uniqueKey(t))})
				require.NoError(t, err)
				before := serverTime(t, rdb)
				result, err := r.AllowN(t.Context(), "key", 1+int(c.below(min(int64(l.capacity(a)), 1000))))
				require.NoError(t, err)
				require.True(t, result.Allowed, "%v", l)
				deadline, err := readDeadline.Run(t.Context(), rdb, []string{r.redisKey("key")}).Int64()
				require.NoError(t, err)
				after := serverTime(t, rdb)
				if deadline == -2 && after.Sub(before) >= result.ResetAfter {
					continue // it had its time
				}
				// In whole ms, rounded up.
				require.GreaterOrEqual(t, deadline, before.Add(result.ResetAfter).UnixMilli(), "%v dies early", l)
				require.LessOrEqual(t, deadline, after.Add(result.ResetAfter).UnixMilli()+roundedUp, "%v lives too long", l)
				require.NoError(t, r.Reset(t.Context(), "key"))
			}
		})
	}
}

// A key that lost its TTL, or has one that is too long, does not keep it.
func TestForeignTTLsAreMended(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, Per(2, 10*time.Second).WithBurst(2), func(t *testing.T, r *Redis) {
		ctx, rdb := t.Context(), sharedRedis(t)
		key := r.redisKey("key")
		_, err := r.AllowN(ctx, "key", 2)
		require.NoError(t, err)
		for _, spoil := range []func() error{
			func() error { return rdb.Persist(ctx, key).Err() },
			func() error { return rdb.PExpire(ctx, key, time.Hour).Err() },
		} {
			require.NoError(t, spoil())
			result, err := r.Allow(ctx, "key")
			require.NoError(t, err)
			require.False(t, result.Allowed)
			require.LessOrEqual(t, result.RetryAfter, 10*time.Second)
			ttl, err := rdb.PTTL(ctx, key).Result()
			require.NoError(t, err)
			require.Greater(t, ttl, time.Duration(0))
			require.LessOrEqual(t, ttl, 20*time.Second)
		}
	})
}

// One decision is one EVALSHA, and the script is loaded once.
func TestOneDecisionIsOneCommand(t *testing.T) {
	t.Parallel()
	rdb := startServer(t).Client(t)
	for _, a := range allAlgorithms {
		r, err := newRedis(a, rdb, PerHour(3), nil)
		require.NoError(t, err)
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		for range 10 {
			_, err = r.Allow(t.Context(), "key")
			require.NoError(t, err)
			_, err = r.Peek(t.Context(), "key")
			require.NoError(t, err)
		}
		calls := commandCalls(t, rdb)
		require.Equal(t, "21", calls["evalsha"], "ten calls, ten peeks, and one that found no script")
		require.Equal(t, "1", cmp.Or(calls["script|load"], calls["script"]), "as Redis 7 and 6 call it")
		require.NotContains(t, calls, "eval")
	}
}

// commandCalls is how often each command was called, from INFO commandstats.
func commandCalls(t *testing.T, rdb redis.UniversalClient) map[string]string {
	t.Helper()
	info, err := rdb.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	calls := map[string]string{}
	for line := range strings.Lines(info) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); ok {
			calls[name], _, _ = strings.Cut(rest, ",")
		}
	}
	return calls
}

// A sliding window log takes at most 12 bytes a unit.
func TestLogIsSmall(t *testing.T) {
	t.Parallel()
	rdb := sharedRedis(t)
	r, err := NewSlidingWindowLog(rdb, PerHour(10_000), WithPrefix(uniqueKey(t)))
	require.NoError(t, err)
	pipe := rdb.Pipeline()
	for range 10_000 {
		q := r.algorithm.request(PerHour(10_000), 1, take)
		pipe.Eval(t.Context(), r.script.text, []string{r.redisKey("key")}, append([]any{0}, q.argv()...)...)
	}
	_, err = pipe.Exec(t.Context())
	require.NoError(t, err)
	bytes, err := rdb.MemoryUsage(t.Context(), r.redisKey("key"), 0).Result()
	require.NoError(t, err)
	t.Logf("%.2f bytes a unit", float64(bytes)/10_000)
	require.LessOrEqual(t, bytes, int64(12*10_000))
	require.NoError(t, r.Reset(t.Context(), "key"))
}

// A call for many units is one decision.
func TestLogTakesManyAtOnce(t *testing.T) {
	t.Parallel()
	r, err := NewSlidingWindowLog(sharedRedis(t), PerHour(100_000), WithPrefix(uniqueKey(t)))
	require.NoError(t, err)
	for remaining := 50_000; remaining >= 0; remaining -= 50_000 {
		result, err := r.AllowN(t.Context(), "key", 50_000)
		require.NoError(t, err)
		require.True(t, result.Allowed)
		require.Equal(t, remaining, result.Remaining)
	}
	result, err := r.AllowN(t.Context(), "key", 50_000)
	require.NoError(t, err)
	require.False(t, result.Allowed)
	require.NoError(t, r.Reset(t.Context(), "key"))
}

// BenchmarkLog shows how a decision grows with the units in the log: refusals,
// which look for the unit that must leave first, and calls that let old units
// go and add a new one.
func BenchmarkLog(b *testing.B) {
	rdb, ctx := sharedRedis(b), b.Context()
	for _, units := range []int{100, 10_000, 1_000_000} {
		// One unit each 10 µs, as far back as the log goes.
		fill := func(period time.Duration) *Redis {
			r, err := NewSlidingWindowLog(rdb, Per(units, period), WithPrefix(uniqueKey(b)))
			require.NoError(b, err)
			require.NoError(b, rdb.Eval(ctx, `
				local t = redis.call('TIME')
				local now = t[1] * 1000000 + t[2]
				for i = ARGV[1], 1, -1 do redis.call('RPUSH', KEYS[1], now - 10 * i) end
				return redis.call('PEXPIRE', KEYS[1], 3600000)`, []string{r.redisKey("key")}, units).Err())
			b.Cleanup(func() { rdb.Unlink(context.WithoutCancel(ctx), r.redisKey("key")) })
			return r
		}
		decide := func(name string, r *Redis, n int) {
			b.Run(fmt.Sprintf("%s/%d", name, units), func(b *testing.B) {
				for b.Loop() {
					if _, err := r.AllowN(ctx, "key", n); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		decide("refuse_1", fill(time.Hour), 1)
		decide("refuse_half", fill(time.Hour), units/2)
		decide("take_1", fill(time.Duration(units)*10*time.Microsecond), 1)
	}
}
