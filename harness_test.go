package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestHarnessSharedServer(t *testing.T) {
	t.Parallel()
	require.Equal(t, "PONG", sharedRedis(t).Ping(t.Context()).Val())
}

var _ = registerChild("harness", func() int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := ping(ctx, os.Getenv(addrEnv)); err != nil {
		fmt.Println(err)
		return 1
	}
	return 7
})

func TestHarnessChildProcess(t *testing.T) {
	t.Parallel()
	said, err := childCommand(t.Context(), "harness").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode(), "%s", said)
}

func TestHarnessRestart(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--maxmemory", "10mb")
	addr, rdb := s.Addr(), s.Client(t)
	require.Equal(t, "10485760", rdb.ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"])
	sha, err := rdb.ScriptLoad(t.Context(), "return 1").Result()
	require.NoError(t, err)
	require.Equal(t, []bool{true}, rdb.ScriptExists(t.Context(), sha).Val())

	s.kill()
	require.Error(t, ping(t.Context(), addr))
	s.restart()
	require.Equal(t, addr, s.Addr())
	require.NoError(t, ping(t.Context(), addr))
	require.Equal(t, []bool{false}, rdb.ScriptExists(t.Context(), sha).Val())
}

func TestHarnessFreeze(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	rdb := impatient(t, s.Addr())
	require.NoError(t, rdb.Ping(t.Context()).Err())
	s.freeze()
	requireTimeout(t, rdb.Ping(t.Context()).Err())
	s.thaw()
	require.NoError(t, rdb.Ping(t.Context()).Err())
	s.freeze() // the server can be removed nevertheless
}

func TestHarnessReplica(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	require.NoError(t, master.Client(t).Set(t.Context(), "k", "v", 0).Err())
	replica := startReplica(t, master)
	rdb := replica.Client(t)
	require.Equal(t, "v", rdb.Get(t.Context(), "k").Val())
	require.True(t, redis.IsReadOnlyError(rdb.Set(t.Context(), "k", "w", 0).Err()))
	replica.promote(t)
	require.NoError(t, rdb.Set(t.Context(), "k", "w", 0).Err())
}

func TestHarnessCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 0)
	rdb := c.Client(t)
	for i := range 100 {
		require.NoError(t, rdb.Set(t.Context(), "k"+strconv.Itoa(i), i, 0).Err())
	}
	for _, node := range c.masters {
		require.NotZero(t, node.Client(t).DBSize(t.Context()).Val())
	}
}

func TestHarnessClusterWithReplicas(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	require.Len(t, c.replicas, 3)
	replica := c.replicas[0]
	require.Same(t, replica, c.failover(t))
	require.Same(t, replica, c.masters[0])
	rdb := c.Client(t)
	for i := range 20 {
		require.NoError(t, rdb.Set(t.Context(), "k"+strconv.Itoa(i), i, 0).Err())
	}
	require.NotZero(t, replica.Client(t).DBSize(t.Context()).Val())
}

func TestHarnessSentinel(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	replica := startReplica(t, master)
	s := startSentinel(t, master, replica)
	rdb := s.Client(t)
	require.NoError(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	require.NoError(t, rdb.Wait(t.Context(), 1, 5*time.Second).Err())
	require.Same(t, replica, s.failover(t))
	eventually(t, 10*time.Second, func(ctx context.Context) error { return rdb.Set(ctx, "k", "w", 0).Err() })
	require.Equal(t, "w", replica.Client(t).Get(t.Context(), "k").Val())
}

func TestHarnessRing(t *testing.T) {
	t.Parallel()
	rdb := startRing(t, 2)
	for i := range 50 {
		require.NoError(t, rdb.Set(t.Context(), "k"+strconv.Itoa(i), i, 0).Err())
	}
	require.NoError(t, rdb.ForEachShard(t.Context(), func(ctx context.Context, shard *redis.Client) error {
		n, err := shard.DBSize(ctx).Result()
		if err == nil && n == 0 {
			err = errors.New("a shard without keys")
		}
		return err
	}))
}

func TestHarnessDeadEnds(t *testing.T) {
	t.Parallel()
	_, err := net.DialTimeout("tcp", closedPort(t), time.Second)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = net.DialTimeout("tcp", blackHole(t), 200*time.Millisecond)
	requireTimeout(t, err)
}

// impatient is a client that gives up after 200 ms and tries once.
func impatient(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	return newClient(tb, &redis.Options{Addr: addr, ReadTimeout: 200 * time.Millisecond, MaxRetries: -1})
}

func requireTimeout(tb testing.TB, err error) {
	tb.Helper()
	var timeout net.Error
	require.ErrorAs(tb, err, &timeout)
	require.True(tb, timeout.Timeout(), "%v", err)
}

// through is r on another client.
func through(tb testing.TB, r *Redis, rdb redis.UniversalClient) *Redis {
	tb.Helper()
	prefix := strings.TrimSuffix(r.prefix, ":"+string(r.algorithm)+":")
	other, err := newRedis(r.algorithm, rdb, r.limits, []Option{WithPrefix(prefix)})
	require.NoError(tb, err)
	return other
}

// inClient is how many calls and flights of r the client has not come back from.
func inClient(r *Redis) int {
	n := len(r.slots)
	c := r.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	lanes := append(slices.Collect(maps.Values(c.lanes)), &c.one)
	for _, l := range lanes {
		l.mu.Lock()
		n += l.running
		l.mu.Unlock()
	}
	return n
}
