package main

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m, main)) }

func TestWithoutAnswer(t *testing.T) {
	t.Parallel()
	relay := redistest.NewRelay(t, redistest.Addr(t, "failopen"))
	p := redistest.Start(t, "-redis-addr", relay.Addr)
	ask := func(path string, want int) {
		t.Helper()
		start := time.Now()
		r := p.Request(http.MethodGet, path)
		require.Equal(t, want, r.Status, r.Body)
		require.Less(t, time.Since(start), 3*time.Second)
		require.Equal(t, want == http.StatusServiceUnavailable || path == "/open", r.Header.Get("RateLimit") == "")
	}

	soon := func(path string, want int) {
		t.Helper()
		for start := time.Now(); p.Request(http.MethodGet, path).Status != want; {
			require.Less(t, time.Since(start), 20*time.Second)
		}
	}

	soon("/closed", http.StatusTooManyRequests)

	relay.Cut()
	for range 7 {
		ask("/open", http.StatusOK)
		ask("/closed", http.StatusServiceUnavailable)
	}
	for range 5 { // what memory has left
		ask("/fallback", http.StatusOK)
	}
	ask("/fallback", http.StatusTooManyRequests)

	relay.Freeze()
	ask("/open", http.StatusOK)
	ask("/closed", http.StatusServiceUnavailable)
	ask("/fallback", http.StatusTooManyRequests)

	// Redis is back, and with it what all share: memory has nothing left.
	relay.Mend()
	soon("/closed", http.StatusTooManyRequests)
	soon("/fallback", http.StatusOK)
	p.Stop()
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	redistest.BadFlags(t, "-redis-addr", []string{"-addr", "8080"})
}
