package ratelimit

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// throughProxy is a proxy before the shared server, an impatient client of it, and a key of the test's own.
func throughProxy(t *testing.T) (p *proxy, rdb *redis.Client, key string) {
	t.Helper()
	t.Parallel()
	p = startProxy(t, sharedAddr())
	rdb = impatient(t, p.Addr())
	require.NoError(t, rdb.Ping(t.Context()).Err())
	key = "harness:" + t.Name()
	t.Cleanup(func() { sharedRedis(t).Del(context.WithoutCancel(t.Context()), key) })
	return p, rdb, key
}

func count(t *testing.T, key string) int {
	t.Helper()
	n, err := sharedRedis(t).Get(t.Context(), key).Int()
	if errors.Is(err, redis.Nil) {
		return 0
	}
	require.NoError(t, err)
	return n
}

func TestHarnessProxyStall(t *testing.T) {
	p, rdb, key := throughProxy(t)
	p.stall(true)
	requireTimeout(t, rdb.Incr(t.Context(), key).Err())
	require.Zero(t, count(t, key))
	require.Error(t, rdb.Ping(t.Context()).Err(), "a new connection")
	p.stall(false)
	require.NoError(t, rdb.Ping(t.Context()).Err())
}

func TestHarnessProxyDropsReplies(t *testing.T) {
	p, rdb, key := throughProxy(t)
	p.dropReplies(true)
	requireTimeout(t, rdb.Incr(t.Context(), key).Err())
	require.Equal(t, 1, count(t, key))
	p.dropReplies(false)
	require.Equal(t, int64(2), rdb.Incr(t.Context(), key).Val())
}

func TestHarnessProxyDropsReplyTo(t *testing.T) {
	p, rdb, key := throughProxy(t)
	p.dropReplyTo("INCR", false)
	requireTimeout(t, rdb.Incr(t.Context(), key).Err())
	require.NoError(t, rdb.Ping(t.Context()).Err())

	p.dropReplyTo("incr", true)
	require.ErrorIs(t, rdb.Incr(t.Context(), key).Err(), io.EOF)
	require.Equal(t, 2, p.dropped())
	require.Equal(t, 2, count(t, key))

	p.dropReplyTo("", false)
	require.Equal(t, int64(3), rdb.Incr(t.Context(), key).Val())
}

func TestHarnessProxyCut(t *testing.T) {
	p, rdb, _ := throughProxy(t)
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, len("+PONG\r\n")))
	require.NoError(t, err)

	p.cut()
	_, err = io.ReadAll(conn)
	require.NoError(t, err, "the connection is closed")
	require.NoError(t, rdb.Ping(t.Context()).Err())
}

func TestHarnessProxyTarget(t *testing.T) {
	p, rdb, _ := throughProxy(t)
	p.setTarget(closedPort(t))
	require.Error(t, rdb.Ping(t.Context()).Err())
	p.setTarget(sharedAddr())
	require.NoError(t, rdb.Ping(t.Context()).Err())
}

func TestHarnessProxyDelay(t *testing.T) {
	p, rdb, _ := throughProxy(t)
	p.delay(50 * time.Millisecond)
	began := time.Now()
	require.NoError(t, rdb.Ping(t.Context()).Err())
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
}
