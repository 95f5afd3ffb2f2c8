package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// inBatch decides calls in one script of a limiter.
func inBatch(t *testing.T, r *Redis, calls ...*call) error {
	t.Helper()
	for _, c := range calls {
		c.of = r
		c.argv = &limitArgs{c.limit, c.q.rate, c.q.period, c.q.capacity}
	}
	if limit := calls[0].argv; len(calls) > 1 && calls[1].limit == calls[0].limit {
		for _, c := range calls {
			if c.limit == limit.limit {
				c.argv = limit
			}
		}
	}
	return r.calls.together(t.Context(), calls)
}

// batchCall is a call of n for a key of r.
func batchCall(r *Redis, key string, l Limit, n int, m mode) *call {
	return &call{key: key, name: r.redisKey(key), limit: l, q: r.algorithm.request(l, n, m)}
}

// Calls that are decided in one script are decided as the twins decide one after
// the other: in a passed time, with the same key several times in a batch, with
// one limit for all and one for each.
func TestBatchesEqualTwins(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			c := seeded(t)
			r, err := newRedis(a, sharedRedis(t), PerHour(1), nil)
			require.NoError(t, err)
			text := passedTime + strings.NewReplacer("redis.call(", "call(", "redis.pcall(", "call(").Replace(r.batch.text)
			sha, err := sharedRedis(t).ScriptLoad(t.Context(), text).Result()
			require.NoError(t, err)
			keys := make([]*timedKey, 6)
			for i := range keys {
				keys[i] = newTimedKey(t, c, a)
			}
			defer removeTimed(t, keys)
			now := 1_800_000_000_000_000 + c.below(1e12)
			for calls := 0; calls < 4000; {
				now = max(1_700_000_000_000_000, min(now+c.wait(keys[0].last, keys[0].limit.Period.Microseconds()), 2_600_000_000_000_000))
				m, alike := c.mode(), c.below(2) == 0
				var batch []*call
				var want []answer
				for range 2 + c.below(18) {
					k := keys[c.below(int64(len(keys)))]
					if alike {
						k.limit = keys[0].limit
					}
					q := a.request(k.limit, c.units(int64(k.limit.capacity(a))), m)
					if m == charge && c.below(2) == 0 {
						q.n = -q.n
					}
					answer := decide(k.at(now), now, q)
					k.keep(now, q, answer)
					batch, want = append(batch, &call{name: k.name, limit: k.limit, q: q}), append(want, answer)
				}
				r.batch = &script{text: text, sha: sha, evalsha: [2]any{"evalsha", sha}, now: strconv.FormatInt(now, 10)}
				require.NoError(t, inBatch(t, r, batch...))
				for i, call := range batch {
					require.NoError(t, call.err)
					got := call.answer
					got.ttl = want[i].ttl
					require.Equal(t, want[i], got, "call %d of %d: %v %+v at %d", i, len(batch), call.limit, call.q, now)
				}
				if c.below(4) == 0 {
					k := keys[c.below(int64(len(keys)))]
					k.limit = c.vary(a, k.limit)
				}
				calls += len(batch)
			}
		})
	}
}

// A key of a wrong type fails its own call, with what Redis says, and no other.
func TestBadKeyFailsAlone(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, PerHour(10), func(t *testing.T, r *Redis) {
		l := PerHour(10)
		require.NoError(t, sharedRedis(t).SAdd(t.Context(), r.redisKey("bad"), "member").Err())
		batch := []*call{
			batchCall(r, "a", l, 1, take), batchCall(r, "bad", l, 1, take), batchCall(r, "a", l, 1, take),
			batchCall(r, "bad", l, 1, take), batchCall(r, "b", l, 1, take),
		}
		require.NoError(t, inBatch(t, r, batch...))
		for i, c := range batch {
			if c.key != "bad" {
				require.NoError(t, c.err, "call %d", i)
				require.Equal(t, r.algorithm != LeakyBucket || i != 2, c.answer.granted == 1, "call %d", i)
				continue
			}
			require.ErrorContains(t, c.err, "WRONGTYPE")
			var said redis.Error
			require.ErrorAs(t, c.err, &said)
		}
		require.Equal(t, []string{"member"}, sharedRedis(t).SMembers(t.Context(), r.redisKey("bad")).Val())
		if r.algorithm != LeakyBucket {
			requireRemaining(t, 8, r, "a")
			requireRemaining(t, 9, r, "b")
		}
	})
}

// A replica refuses all; a server without memory refuses those that take.
func TestBatchRefusedByServer(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	replica := startReplica(t, master).Client(t)
	full := startServer(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction").Client(t)
	for _, a := range allAlgorithms {
		l := PerHour(5).WithBurst(5)
		r, err := newRedis(a, replica, l, nil)
		require.NoError(t, err)
		batch := []*call{batchCall(r, "a", l, 6, take), batchCall(r, "b", l, 1, take)}
		require.True(t, redis.IsReadOnlyError(inBatch(t, r, batch...)))
		require.True(t, redis.IsReadOnlyError(batch[0].err))
		require.True(t, redis.IsReadOnlyError(batch[1].err))

		r, err = newRedis(a, full, l, nil)
		require.NoError(t, err)
		batch = []*call{batchCall(r, "a", l, 6, take), batchCall(r, "b", l, 1, take), batchCall(r, "c", l, 7, take)}
		err = inBatch(t, r, batch...)
		if err == nil { // the server lets scripts begin
			require.NoError(t, batch[0].err)
			require.EqualValues(t, never, batch[2].answer.retry)
		}
		require.ErrorContains(t, batch[1].err, "OOM ")
		require.Zero(t, full.DBSize(t.Context()).Val())
	}
}

// Whatever a server says to several calls, it is an error of each that has no
// answer, and answers are never mixed up.
func TestHostileRepliesToBatches(t *testing.T) {
	t.Parallel()
	good := func(n int) string { return fmt.Sprintf(":1\r\n:%d\r\n:0\r\n:9\r\n", n) }
	failed := ":-1\r\n:0\r\n:0\r\n:0\r\n"
	for reply, want := range map[string][2]string{
		"*8\r\n" + good(3) + good(2):                             {"", ""},
		"*4\r\n" + good(3):                                       {"at least 8", "at least 8"},
		"*12\r\n" + good(3) + good(2) + good(1):                  {"too long", "too long"},
		"*8\r\n" + good(3) + failed:                              {"", "no text"},
		"*11\r\n" + good(3) + failed + ":2\r\n:72\r\n:73\r\n":    {"", "HI"},
		"*11\r\n" + failed + good(3) + ":2\r\n:72\r\n:73\r\n":    {"HI", ""},
		"*10\r\n" + good(3) + failed + ":2\r\n:72\r\n":           {"", "no text"},
		"*9\r\n" + good(3) + failed + ":-5\r\n":                  {"", "no text"},
		"*9\r\n" + good(3) + failed + ":0\r\n":                   {"", ""},
		"*8\r\n" + good(99) + good(2):                            {"out of bounds", ""},
		"*8\r\n:1\r\n:3\r\n:0\r\n:9\r\n:2\r\n:3\r\n:0\r\n:9\r\n": {"", "out of bounds"},
		"-ERR no\r\n": {"ERR no", "ERR no"}, "*-1\r\n": {"nil", "nil"}, ":1\r\n": {"can't parse", "can't parse"},
	} {
		rdb := startFake(t, func(string) string { return strings.TrimSuffix(reply, "\r\n") })
		r, err := NewTokenBucket(rdb, PerSecond(5))
		require.NoError(t, err)
		batch := []*call{batchCall(r, "a", PerSecond(5), 1, take), batchCall(r, "b", PerSecond(5), 1, take)}
		_ = inBatch(t, r, batch...)
		for i, c := range batch {
			failed := want[i] != "" || strings.HasSuffix(reply, ":0\r\n") && i == 1 && strings.HasPrefix(reply, "*9")
			require.Equal(t, failed, c.err != nil, "%q, call %d: %v", reply, i, c.err)
			if failed {
				require.ErrorContains(t, c.err, want[i])
			}
		}
	}
}

// Concurrent calls are exact, whichever client and server: a server that is a
// cluster behind a plain client refuses a script for several slots, and gets
// pipelines from then on.
func TestCoalescedCallsAreExact(t *testing.T) {
	t.Parallel()
	lone := startServer(t, "--cluster-enabled", "yes")
	require.NoError(t, lone.Client(t).ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	eventually(t, 5*time.Second, func(ctx context.Context) error { return lone.Client(t).Set(ctx, "up", 1, time.Minute).Err() })
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": startServer(t).Addr(), "two": startServer(t).Addr()}})
	t.Cleanup(func() { _ = ring.Close() })
	for name, rdb := range map[string]redis.UniversalClient{
		"client": sharedRedis(t), "ring": ring, "cluster": startCluster(t, 2, 0).Client(t), "cluster node": lone.Client(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, a := range allAlgorithms {
				r, err := newRedis(a, rdb, PerDay(20).WithBurst(20), []Option{WithPrefix(uniqueKey(t))})
				require.NoError(t, err)
				var admitted [8]atomic.Int64
				var wg sync.WaitGroup
				for g := range 64 {
					wg.Go(func() {
						for i := range 8 {
							ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
							key := (g + i) % 8
							result, err := r.Allow(ctx, strconv.Itoa(key))
							cancel()
							if err != nil {
								t.Error(err)
							} else if result.Allowed {
								admitted[key].Add(1)
							}
						}
					})
				}
				wg.Wait()
				for key := range admitted {
					require.EqualValues(t, 20, admitted[key].Load(), "%s, key %d", a, key)
				}
				switch name {
				case "cluster node":
					require.True(t, r.calls.scattered.Load(), "no two calls were together")
				case "ring", "cluster":
					require.Len(t, r.calls.lanes, 2)
				}
			}
		})
	}
}

// A flushed script cache is not seen by those who call together.
func TestCoalescedCallsAfterScriptFlush(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	rdb := server.Client(t)
	r, err := NewTokenBucket(rdb, PerDay(1_000_000))
	require.NoError(t, err)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := r.Allow(t.Context(), strconv.Itoa(g)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 50 {
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		time.Sleep(2 * time.Millisecond)
	}
	close(done)
	wg.Wait()
}

// The calls of a server that is loading are tried again; those whose callers have
// gone are not.
func TestCoalescedCallsAreTriedAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	rdb := startFake(t, func(string) string {
		if asked.Add(1) <= 3 {
			return "-LOADING Redis is loading the dataset in memory"
		}
		return "*4\r\n:1\r\n:4\r\n:0\r\n:1000"
	})
	r, err := NewTokenBucket(rdb, PerSecond(5))
	require.NoError(t, err)
	result, err := r.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.True(t, result.Allowed)
	require.EqualValues(t, 4, asked.Load())

	asked.Store(-1000)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
	defer cancel()
	_, err = r.Allow(ctx, "key")
	require.True(t, errors.Is(err, context.DeadlineExceeded) || redis.IsLoadingError(err), "%v", err)
	eventually(t, time.Second, func(context.Context) error {
		if n := inClient(r); n > 0 {
			return fmt.Errorf("%d flights are left", n)
		}
		return nil
	})
	require.Less(t, asked.Load(), int32(-990))
}
