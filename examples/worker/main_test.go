package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m, main)) }

// Each test has an API, and so a key, of its own. Nothing is deleted that another
// one uses, as no key has these prefixes.
func TestOwnAPI(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := redistest.Run(t, "-redis-addr", redistest.Addr(t, "worker-own"), "-jobs", "30")
	require.Zero(t, status, stderr)
	require.Contains(t, stdout, "5 workers, 30 jobs in ")
	require.Contains(t, stdout, "the API served 30 and refused 0\n")
}

// Three processes, with four workers each, share the quota.
func TestSharedAPI(t *testing.T) {
	t.Parallel()
	party := new(thirdParty)
	server := httptest.NewServer(party)
	t.Cleanup(server.Close)
	addr, start := redistest.Addr(t, "worker-shared"), time.Now()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			status, stdout, stderr := redistest.Run(t, "-redis-addr", addr, "-api", server.URL, "-workers", "4", "-jobs", "20")
			if status != 0 || stdout == "" {
				t.Error(status, stdout, stderr)
			}
		})
	}
	wg.Wait()
	served, refused := party.counts()
	require.Equal(t, 60, served)
	require.Zero(t, refused)
	require.GreaterOrEqual(t, time.Since(start), 2*time.Second) // so many would have been refused at full speed
}

func TestThirdPartyRefuses(t *testing.T) {
	t.Parallel()
	party := new(thirdParty)
	codes := map[int]int{}
	for range quota + 3 {
		w := httptest.NewRecorder()
		party.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		codes[w.Code]++
	}
	require.Equal(t, map[int]int{http.StatusNoContent: quota, http.StatusTooManyRequests: 3}, codes)
}

func TestFailingAPI(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	status, stdout, stderr := redistest.Run(t, "-redis-addr", redistest.Addr(t, "worker-failing"), "-api", server.URL)
	require.Equal(t, 1, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, fmt.Sprintf("%s: 404 Not Found", server.URL))
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
	redistest.BadFlags(t, "-redis-addr", []string{"-workers", "0"}, []string{"-jobs", "-1"}, []string{"-api", "nowhere"})
}
