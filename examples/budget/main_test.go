package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m, main)) }

const want = `acme   reserves 1500: used 400; left 1600
globex reserves 4000: used 3200; left 6800
acme   reserves 1500: used 900; left 700
acme   reserves 1500: refused, wait for 1m0s; left 700
globex reserves 6000: cancelled, the model is overloaded; left 6800
acme   reserves  600: used 800; left 0
acme   reserves    1: refused, wait for 1m0s; left 0
acme   reserves 3000: refused for ever; left 0
globex reserves 6800: used 6000; left 800
acme had 2100: 2000 per 1m
globex had 9200: 10000 per 1m
`

func TestBudgets(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := redistest.Run(t, "-redis-addr", redistest.Addr(t, "budget"))
	require.Zero(t, status, stderr)
	require.Equal(t, want, stdout)
}

func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	status, _, stderr := redistest.Run(t, "-redis-addr", "127.0.0.1:1")
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "connection refused")
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	redistest.BadFlags(t, "-redis-addr")
}
