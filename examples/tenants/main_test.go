package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m, main)) }

const want = `plans by tenant
  acme     3 of 20 allowed: 3 per 1m
  globex  10 of 20 allowed: 10 per 1m
  ops     20 of 20 allowed: unlimited
  spam     0 of 20 allowed: 0 per 1m
acme upgrades to pro; what it has used still counts
  acme     7 of 20 allowed: 10 per 1m
pro gets 15 a minute
  acme     5 of 20 allowed: 15 per 1m
  globex   5 of 20 allowed: 15 per 1m
ratelimit: fixed_window: key "nobody": the tenant has no plan
`

func TestPlans(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := redistest.Run(t, "-redis-addr", redistest.Addr(t, "tenants"))
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
