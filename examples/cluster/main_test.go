package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m, main)) }

func TestLimits(t *testing.T) {
	t.Parallel()
	masters := redistest.Cluster(t)
	status, stdout, stderr := redistest.Run(t, "-redis-addrs", strings.Join(masters, ","))
	require.Zero(t, status, stderr)
	require.Equal(t, 12, strings.Count(stdout, ": 5 of 8 allowed, on "), stdout)

	// Random keys may leave out a master, but hardly two of three.
	require.GreaterOrEqual(t, strings.Count(stdout, " kept "), min(2, len(masters)), stdout)
}

func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := redistest.Run(t, "-redis-addrs", "127.0.0.1:1,127.0.0.1:2")
	require.Equal(t, 1, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "refused")
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	redistest.BadFlags(t, "-redis-addrs", []string{"-redis-addrs", "localhost:7000,localhost"})
}
