package ratelimit

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

var oddKeys = []string{
	"user:42", "a{b}c", "{}x", "}{", "}", "{", "{tag}1", "{tag}2", "two words", "nul\x00", "umlaut ü", "\xff\xfe",
	strings.Repeat("m", 1<<20), strings.Repeat("m", 1<<20) + "n",
}

// All five are right with all keys on clients that shard by key.
func TestShardedClients(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, 0).Client(t)
	pipeliner, err := cluster.AutoPipeline()
	require.NoError(t, err)
	single, err := newClient(t, &redis.Options{Addr: sharedAddr()}).AutoPipeline()
	require.NoError(t, err)
	for name, rdb := range map[string]redis.UniversalClient{
		"cluster":              cluster,
		"cluster autopipeline": pipeliner,
		"autopipeline":         single,
		"ring":                 startRing(t, 3),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, a := range allAlgorithms {
				r, err := newRedis(a, rdb, PerHour(3).WithBurst(3), []Option{WithPrefix(uniqueKey(t))})
				require.NoError(t, err)
				for _, key := range oddKeys {
					for _, want := range []struct {
						n, remaining int
						allowed      bool
					}{{1, 2, true}, {3, 2, false}, {2, 0, true}, {1, 0, false}} {
						result, err := r.AllowN(t.Context(), key, want.n)
						require.NoError(t, err)
						require.Equal(t, want.allowed, result.Allowed, "%s %.40q", a, key)
						require.Equal(t, want.remaining, result.Remaining)
					}
					require.NoError(t, r.Reset(t.Context(), key))
					result, err := r.Peek(t.Context(), key)
					require.NoError(t, err)
					require.Equal(t, 3, result.Remaining)
				}
			}
		})
	}
}

// On a cluster, a node that has lost its scripts is given them again.
func TestClusterScriptFlush(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, 0).Client(t)
	r, err := NewTokenBucket(cluster, PerHour(10))
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, cluster.ScriptFlush(t.Context()).Err())
		for _, key := range oddKeys {
			_, err := r.Allow(t.Context(), key)
			require.NoError(t, err)
		}
	}
}
