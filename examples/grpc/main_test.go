package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

func TestMain(m *testing.M) {
	timeout = time.Second // a busy machine is no slow Redis
	os.Exit(redistest.Main(m, main))
}

const (
	burst  = 5
	refill = time.Second / 5
)

// connect is a client that does not retry.
func connect(t *testing.T, addr string) grpc_health_v1.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return grpc_health_v1.NewHealthClient(conn)
}

// untilRefused calls until a call is refused, and returns what that was told.
func untilRefused(t *testing.T, call func() error) (passed int, wait time.Duration) {
	t.Helper()
	for {
		err := call()
		if err == nil {
			passed++
			continue
		}
		require.Equal(t, codes.ResourceExhausted, status.Code(err), err)
		wait, ok := retryDelay(err)
		require.True(t, ok, "no RetryInfo")
		require.Positive(t, wait)
		require.LessOrEqual(t, wait, refill)
		return passed, wait
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	p := redistest.Start(t, "-redis-addr", redistest.Addr(t, "grpc"))
	client := connect(t, p.Addr)
	check := func() error {
		_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err
	}

	start := time.Now()
	passed, wait := untilRefused(t, check)
	require.GreaterOrEqual(t, passed, burst)
	require.LessOrEqual(t, passed, burst+int(time.Since(start)/refill)+1)
	time.Sleep(wait)
	require.NoError(t, check(), "after the wait that the server has named")

	// A stream is refused as well, until its client waits.
	_, _ = untilRefused(t, check)
	stream, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	if _, ok := retryDelay(err); !ok {
		require.NoError(t, err) // it has taken the machine long to get here
	}
	first, err := watch(t.Context(), client)
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, first.GetStatus())

	// The client makes all its calls, though it comes to an empty bucket.
	exit, stdout, stderr := redistest.Run(t, "-addr", p.Addr, "-calls", "8")
	require.Zero(t, exit, stderr)
	require.Contains(t, stdout, "call 8: SERVING after ")
	require.Contains(t, stdout, "stream: SERVING\n")
	p.Stop() // also with the streams still open
}

func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	p := redistest.Start(t, "-redis-addr", "127.0.0.1:1")
	_, err := connect(t, p.Addr).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.NotContains(t, err.Error(), "127.0.0.1")
	p.Stop()
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	redistest.BadFlags(t, "-redis-addr", []string{"-addr", "8080"}, []string{"-calls", "-1"})
}
