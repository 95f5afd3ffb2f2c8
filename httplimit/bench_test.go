package httplimit_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

// A sink is a ResponseWriter that allocates nothing but what a server would.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

// What the middleware costs is handler − limiter − bare.
func BenchmarkMiddleware(b *testing.B) {
	const key = "ip:192.0.2.1"
	limiter := newMemory(b, ratelimit.TokenBucket, ratelimit.PerSecond(1_000_000_000))
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header()["Content-Type"] = contentType })
	plain := httplimit.Middleware{Limiter: limiter, Key: httplimit.ByRemoteAddr}
	legacy, timeout, proxied := plain, plain, plain
	legacy.LegacyHeaders = true
	timeout.Timeout = time.Second
	proxied.Key = httplimit.ClientIP{Trusted: prefixes("192.0.2.0/24")}.Key
	denied := plain
	denied.Limiter = newMemory(b, ratelimit.TokenBucket, ratelimit.Per(0, time.Second))
	denied.Denied = func(http.ResponseWriter, *http.Request, ratelimit.Result) {}

	b.Run("limiter", func(b *testing.B) {
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			_, _ = limiter.AllowN(ctx, key, 1)
		}
	})
	for name, h := range map[string]http.Handler{
		"bare": handler, "handler": plain.Handler(handler), "legacy": legacy.Handler(handler),
		"timeout": timeout.Handler(handler), "proxied": proxied.Handler(handler), "denied": denied.Handler(handler),
	} {
		b.Run(name, func(b *testing.B) {
			r := from("192.0.2.1:1234", "203.0.113.7, 192.0.2.8").WithContext(b.Context())
			b.ReportAllocs()
			for b.Loop() {
				w := sink{make(http.Header)}
				h.ServeHTTP(&w, r)
			}
		})
	}
}

var contentType = []string{"text/plain"}

// The middleware adds at most 6 allocations to a request. Not parallel, as
// allocations are counted for the whole process.
func TestAllocations(t *testing.T) {
	limiter := newMemory(t, ratelimit.TokenBucket, ratelimit.PerSecond(1_000_000_000))
	r := from("[2001:db8::1]:1234").WithContext(t.Context())
	count := func(h http.Handler) float64 {
		return testing.AllocsPerRun(100, func() {
			w := sink{make(http.Header)}
			h.ServeHTTP(&w, r)
		})
	}
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header()["Content-Type"] = contentType })
	limit := httplimit.Middleware{Limiter: limiter, Key: httplimit.ByRemoteAddr, LegacyHeaders: true}
	require.LessOrEqual(t, count(limit.Handler(bare))-count(bare), 6.0)
}
