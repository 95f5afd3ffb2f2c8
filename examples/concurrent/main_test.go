package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m, main)) }

func TestExactlyTheLimit(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := redistest.Run(t, "-redis-addr", redistest.Addr(t, "concurrent"))
	require.Zero(t, status, stderr)
	require.Contains(t, stdout, "20 goroutines, 500 calls, limit 100: 100 allowed, 400 refused")
}

func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := redistest.Run(t, "-redis-addr", "127.0.0.1:1")
	require.Equal(t, 1, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "connection refused")
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	redistest.BadFlags(t, "-redis-addr")
}
