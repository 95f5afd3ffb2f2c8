// Package redistest runs the examples for their tests, on a real Redis.
package redistest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const (
	addrEnv    = "RATELIMIT_REDIS_ADDR"  // host:port of a running Redis
	imageEnv   = "RATELIMIT_REDIS_IMAGE" // image of the containers
	requireEnv = "RATELIMIT_REQUIRE"     // addr, process or container: that way or none
)

// Addr is the address of a Redis that holds nothing of an earlier run's under
// prefix: the one at RATELIMIT_REDIS_ADDR, else a process of the test's own,
// else a container. Without any the test fails, for a skipped one proves nothing.
// Tests that run at the same time need different prefixes.
func Addr(tb testing.TB, prefix string) string {
	tb.Helper()
	addr, only := os.Getenv(addrEnv), os.Getenv(requireEnv)
	if addr != "" && (only == "" || only == "addr") {
		clean(tb, addr, prefix)
		return addr
	}
	return start(tb, only, startProcess, startContainer)
}

// Cluster is the addresses of the masters of a Redis Cluster of the test's own:
// three processes, or else one container.
func Cluster(tb testing.TB) []string {
	tb.Helper()
	only := os.Getenv(requireEnv)
	if only == "addr" {
		only = "" // that is no cluster
	}
	return start(tb, only, startProcesses, startClusterContainer)
}

// start takes the first way that leads to a Redis, or the only one allowed.
func start[T any](tb testing.TB, only string, process, container func(testing.TB) (T, error)) T {
	tb.Helper()
	var tried []error
	for _, way := range []struct {
		name  string
		start func(testing.TB) (T, error)
	}{{"process", process}, {"container", container}} {
		if only != "" && only != way.name {
			continue
		}
		found, err := way.start(tb)
		if err == nil {
			return found
		}
		tried = append(tried, fmt.Errorf("%s: %w", way.name, err))
	}
	if len(tried) == 0 {
		tried = append(tried, errors.New("that way there is none"))
	}
	require.NoError(tb, fmt.Errorf("the test needs a Redis: put redis-server or valkey-server on PATH, start Docker, "+
		"or set %s=host:port (%s=%s: %w)", addrEnv, requireEnv, only, errors.Join(tried...)))
	panic("unreachable")
}

// clean deletes what earlier runs have left in a server that outlives them.
func clean(tb testing.TB, addr, prefix string) {
	tb.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	keys := rdb.Scan(tb.Context(), 0, prefix+":*", 1000).Iterator()
	for keys.Next(tb.Context()) {
		require.NoError(tb, rdb.Unlink(tb.Context(), keys.Val()).Err())
	}
	require.NoError(tb, keys.Err())
}
