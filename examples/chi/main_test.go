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
	p := redistest.Start(t, "-redis-addr", redistest.Addr(t, "chi"))

	r := p.Request(http.MethodGet, "/")
	require.Equal(t, http.StatusOK, r.Status)
	require.Equal(t, "hello\n", r.Body)
	require.Len(t, r.Header.Values("RateLimit"), 1)

	p.Exhaust(http.MethodGet, "/orgs/acme/users", "org", 12, 5*time.Second)

	// Another organization has a limit of its own, of which a report takes five.
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		r = p.Request(http.MethodPost, "/orgs/other/reports")
		require.Equal(t, want, r.Status)
		require.Len(t, r.Header.Values("RateLimit"), 2)
		require.Contains(t, r.Header.Values("RateLimit")[0], `"client";`)
		require.Contains(t, r.Header.Values("RateLimit")[1], `"org";`)
	}
	r = p.Request(http.MethodGet, "/orgs/other/users")
	require.Equal(t, http.StatusOK, r.Status)
	p.Stop()
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	redistest.BadFlags(t, "-redis-addr", []string{"-addr", "8080"})
}
