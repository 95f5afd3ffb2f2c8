package main

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

func TestMain(m *testing.M) {
	timeout = time.Second // a busy machine is no slow Redis
	os.Exit(redistest.Main(m, main))
}

func TestLimits(t *testing.T) {
	t.Parallel()
	p := redistest.Start(t, "-redis-addr", redistest.Addr(t, "fiber"))

	r := p.Request(http.MethodGet, "/")
	require.Equal(t, http.StatusOK, r.Status)
	require.Equal(t, "hello\n", r.Body)
	require.Len(t, r.Header.Values("RateLimit"), 1)

	p.Exhaust(http.MethodPost, "/login", "login", 3, time.Minute)
	p.Exhaust(http.MethodGet, "/", "default", 10-1-4, 2*time.Second)
	p.Stop()
}

func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	p := redistest.Start(t, "-redis-addr", "127.0.0.1:1")
	r := p.Request(http.MethodGet, "/")
	require.Equal(t, http.StatusServiceUnavailable, r.Status)
	require.NotContains(t, r.Body, "127.0.0.1")
	p.Stop()
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	redistest.BadFlags(t, "-redis-addr", []string{"-addr", "8080"})
}
