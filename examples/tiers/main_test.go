package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m, main)) }

const want = `ada, by the limits of a user
  call 11 is refused: 10 per 1s refuses, left 0, wait 1s
    10 per 1s refuses, left 0, wait 1s
    1000 per 24h would do, left 990
bob of acme, by all limits; a call costs the tenant 5
  call 5 is refused: 20 per 1m refuses, left 0, wait 60s
    10 per 1s would do, left 6
    1000 per 24h would do, left 996
    20 per 1m refuses, left 0, wait 60s
    30 per 1m would do, left 10
eve of globex, by all limits; a call costs the tenant 5
  call 3 is refused: 30 per 1m refuses, left 0, wait 60s
    10 per 1s would do, left 8
    1000 per 24h would do, left 998
    20 per 1m would do, left 10
    30 per 1m refuses, left 0, wait 60s
`

// requireTiers runs the program once more where the machine was too slow for a
// second to be one.
func requireTiers(t *testing.T, addrs ...string) {
	t.Helper()
	for try := 1; ; try++ {
		status, stdout, stderr := redistest.Run(t, "-redis-addrs", strings.Join(addrs, ","))
		require.Zero(t, status, stderr)
		if stdout == want || try == 3 {
			require.Equal(t, want, stdout)
			return
		}
	}
}

func TestTiers(t *testing.T) {
	t.Parallel()
	requireTiers(t, redistest.Addr(t, "tiers"))
}

func TestTiersOnACluster(t *testing.T) {
	t.Parallel()
	requireTiers(t, redistest.Cluster(t)...)
}

func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := redistest.Run(t, "-redis-addrs", "127.0.0.1:1")
	require.Equal(t, 1, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "refused")
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	redistest.BadFlags(t, "-redis-addrs", []string{"-redis-addrs", "localhost:7000,localhost"})
}
