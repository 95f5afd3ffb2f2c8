package ratelimit

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// clusterSlotTag is the part of a key that chooses its slot, as the cluster
// specification has it.
func clusterSlotTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

func testLimiter(tb testing.TB, a Algorithm, prefix string) *Redis {
	tb.Helper()
	r, err := newRedis(a, redis.NewClient(&redis.Options{}), PerSecond(1), []Option{WithPrefix(prefix)})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = r.rdb.Close() })
	return r
}

func TestRedisKeys(t *testing.T) {
	t.Parallel()
	r := testLimiter(t, TokenBucket, "ratelimit")
	for key, want := range map[string]string{
		"user:42":    "ratelimit:token_bucket:{user:42}",
		"a{b}c":      "ratelimit:token_bucket:{a{b}c}",
		"{t}x":       "ratelimit:token_bucket:{{t}x}",
		"{}x":        "ratelimit:token_bucket:{{}x}",
		"}{":         "ratelimit:token_bucket:{HASH}:sha256",
		"a \x00\xff": "ratelimit:token_bucket:{a \x00\xff}",
	} {
		sum := sha256.Sum256([]byte(key))
		require.Equal(t, strings.Replace(want, "HASH", hex.EncodeToString(sum[:]), 1), r.redisKey(key))
	}
	long := strings.Repeat("x", longestKey)
	require.Contains(t, r.redisKey(long), long)
	require.Len(t, r.redisKey(long+"x"), len("ratelimit:token_bucket:{}:sha256")+64)
}

// FuzzRedisKey: distinct keys and limiters never share a Redis key, what is in
// Redis is bounded, and all limiters' state of one key lies in one slot.
func FuzzRedisKey(f *testing.F) {
	for _, key := range []string{"a", "a{b}c", "{}x", "}{", "}", "{", "{}", " ", "\x00", "é", strings.Repeat("x", 300), "x:fixed_window:{k"} {
		for _, other := range []string{"a", "b", "}", "}}", "{a", strings.Repeat("x", 256)} {
			f.Add(key, other, "p", "p:q")
		}
	}
	f.Fuzz(func(t *testing.T, key, other, prefix, otherPrefix string) {
		if key == "" || other == "" {
			return
		}
		for _, p := range []string{prefix, otherPrefix} {
			if (redisOptions{prefix: p}).check() != nil {
				return
			}
		}
		type limiter struct {
			prefix, key string
			algorithm   Algorithm
		}
		seen := map[string]limiter{}
		for _, l := range []limiter{{prefix, key, ""}, {prefix, other, ""}, {otherPrefix, key, ""}, {otherPrefix, other, ""}} {
			for _, a := range []Algorithm{TokenBucket, FixedWindow} {
				l.algorithm = a
				name := (&Redis{prefix: l.prefix + ":" + string(a) + ":"}).redisKey(l.key)
				if was, ok := seen[name]; ok {
					require.Equal(t, was, l, "they share %q", name)
				}
				seen[name] = l
				require.LessOrEqual(t, len(name), maxPrefix+len("::{}:sha256")+len(SlidingWindowCounter)+longestKey)
				require.Equal(t, clusterSlotTag((&Redis{prefix: "x:"}).redisKey(l.key)), clusterSlotTag(name))
			}
		}
	})
}
