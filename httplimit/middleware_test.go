package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

// A stub is a Limiter that answers as it is told and keeps what it was asked.
type stub struct {
	ratelimit.Limiter

	result ratelimit.Result
	err    error
	ctx    context.Context //nolint:containedctx // to look at it
	keys   []string
	costs  []int
}

func (s *stub) AllowN(ctx context.Context, key string, n int) (ratelimit.Result, error) {
	s.ctx, s.keys, s.costs = ctx, append(s.keys, key), append(s.costs, n)
	return s.result, s.err
}

func newMemory(tb testing.TB, a ratelimit.Algorithm, l ratelimit.Limits) *ratelimit.Memory {
	tb.Helper()
	limiter, err := ratelimit.NewMemory(a, l)
	require.NoError(tb, err)
	return limiter
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Allowed and refused answers both have the fields.
func TestAllowedAndDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := httplimit.Middleware{
			Limiter:       newMemory(t, ratelimit.FixedWindow, ratelimit.PerHour(2)),
			Key:           httplimit.ByRemoteAddr,
			LegacyHeaders: true,
		}.Handler(ok)

		for _, remaining := range []string{"1", "0"} {
			w := serve(h, get())
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, "ok", w.Body.String())
			require.Equal(t, `"default";q=2;w=3600`, w.Header().Get("RateLimit-Policy"))
			require.Equal(t, `"default";r=`+remaining+`;t=3600;a=`+remaining+`;w=3600`, w.Header().Get("RateLimit"))
			require.Equal(t, "2", w.Header().Get("X-RateLimit-Limit"))
			require.Equal(t, remaining, w.Header().Get("X-RateLimit-Remaining"))
			require.Equal(t, "3600", w.Header().Get("X-RateLimit-Reset"))
			require.Empty(t, w.Header().Get("Retry-After"))
			require.Empty(t, w.Header().Get("Cache-Control"))
		}

		w := serve(h, get())
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, `"default";q=2;w=3600`, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, `"default";r=0;t=3600;a=0;w=3600`, w.Header().Get("RateLimit"))
		require.Equal(t, "3600", w.Header().Get("Retry-After"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		require.Equal(t, "0", w.Header().Get("X-RateLimit-Remaining"))

		require.Equal(t, http.StatusOK, serve(h, from("203.0.113.7:1")).Code) // another client
	})
}

func TestKeyAndCost(t *testing.T) {
	t.Parallel()
	s := &stub{result: ratelimit.Result{Allowed: true, Limit: ratelimit.Unlimited}}
	costs := []int{3, 0, -7, 1}
	h := httplimit.Middleware{
		Limiter: s,
		Key:     httplimit.ByHeader("X-Api-Key"),
		Cost: func(*http.Request) int {
			c := costs[0]
			costs = costs[1:]
			return c
		},
	}.Handler(ok)

	w := serve(h, get("X-Api-Key", "k"))
	require.Empty(t, w.Header().Values("RateLimit"))
	require.Empty(t, w.Header().Values("RateLimit-Policy"))
	serve(h, get())
	serve(h, get())
	serve(h, get("X-Api-Key", "k"))
	k := httplimit.ByHeader("X-Api-Key")(get("X-Api-Key", "k"))
	require.Equal(t, []string{k, httplimit.NoKey, httplimit.NoKey, k}, s.keys)
	require.Equal(t, []int{3, 1, 1, 1}, s.costs) // nobody gets units back, and nobody passes free
}

// Leaving out the key gets nobody around the limit, also where failures let through.
func TestWithoutKey(t *testing.T) {
	t.Parallel()
	h := httplimit.Middleware{
		Limiter: newMemory(t, ratelimit.FixedWindow, ratelimit.PerHour(1)),
		Key:     httplimit.ByHeader("X-Api-Key"),
		Failed:  httplimit.FailOpen,
	}.Handler(ok)
	require.Equal(t, http.StatusOK, serve(h, get()).Code)
	require.Equal(t, http.StatusTooManyRequests, serve(h, get()).Code)
	require.Equal(t, http.StatusOK, serve(h, get("X-Api-Key", "k")).Code)
}

func TestSkip(t *testing.T) {
	t.Parallel()
	s := &stub{}
	h := httplimit.Middleware{
		Limiter: s,
		Key:     httplimit.ByRemoteAddr,
		Skip:    func(r *http.Request) bool { return r.URL.Path == "/items/7" },
	}.Handler(ok)
	w := serve(h, get())
	require.Equal(t, "ok", w.Body.String())
	require.NotContains(t, w.Header(), "Ratelimit")
	require.Empty(t, s.keys)
}

// Each policy stands, whichever limit refuses.
func TestSeveralLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		day := httplimit.Middleware{
			Name:          "day",
			Limiter:       newMemory(t, ratelimit.FixedWindow, ratelimit.PerDay(10)),
			Key:           httplimit.ByRemoteAddr,
			LegacyHeaders: true,
		}
		hour := day
		hour.Name, hour.Limiter = "hour", newMemory(t, ratelimit.FixedWindow, ratelimit.PerHour(1))
		minute := day
		minute.Name, minute.Limiter = "minute", newMemory(t, ratelimit.FixedWindow, ratelimit.PerMinute(5))
		h := day.Handler(hour.Handler(minute.Handler(ok)))

		w := serve(h, get())
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, []string{`"day";q=10;w=86400`, `"hour";q=1;w=3600`, `"minute";q=5;w=60`}, w.Header().Values("RateLimit-Policy"))
		require.Equal(t, []string{`"day";r=9;t=86400;a=9;w=86400`, `"hour";r=0;t=3600;a=0;w=3600`, `"minute";r=4;t=60;a=4;w=60`}, w.Header().Values("RateLimit"))
		require.Equal(t, []string{"1"}, w.Header().Values("X-RateLimit-Limit")) // the tightest
		require.Equal(t, []string{"0"}, w.Header().Values("X-RateLimit-Remaining"))

		w = serve(h, get())
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, []string{`"day";r=8;t=86400;a=8;w=86400`, `"hour";r=0;t=3600;a=0;w=3600`}, w.Header().Values("RateLimit"))
		require.Equal(t, []string{"3600"}, w.Header().Values("Retry-After"))
		require.Equal(t, []string{"1"}, w.Header().Values("X-RateLimit-Limit"))
	})
}

// The same limiter and key around the mux and around a route: two units.
func TestTwiceTheSameIsChargedTwice(t *testing.T) {
	t.Parallel()
	limit := httplimit.Middleware{Limiter: newMemory(t, ratelimit.FixedWindow, ratelimit.PerHour(10)), Key: httplimit.ByRemoteAddr}
	mux := http.NewServeMux()
	mux.Handle("/items/", limit.Handler(ok))
	w := serve(limit.Handler(mux), get())
	require.Contains(t, w.Header().Values("RateLimit")[1], "r=8;")
}

// The handler behind finds the fields set, gets the very ResponseWriter and
// Request, and what it writes itself does not push the fields out.
func TestTheHandlerBehind(t *testing.T) {
	t.Parallel()
	limit := httplimit.Middleware{Limiter: newMemory(t, ratelimit.FixedWindow, ratelimit.PerHour(10)), Key: httplimit.ByRemoteAddr, Timeout: time.Minute}
	w, r := httptest.NewRecorder(), get()
	var got http.ResponseWriter
	var request *http.Request
	var state string
	limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, request, state = w, r, w.Header().Get("RateLimit")
		w.Header().Set("X-Own", "1")
		http.Error(w, "no", http.StatusTeapot)
	})).ServeHTTP(w, r)
	require.Same(t, w, got)
	require.Same(t, r, request)
	require.Contains(t, state, "r=9;")
	require.Equal(t, http.StatusTeapot, w.Code)
	require.Contains(t, w.Header().Get("RateLimit"), "r=9;")
	require.Equal(t, "1", w.Header().Get("X-Own"))

	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"upstream";r=1`)
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	require.NoError(t, err)
	front := httptest.NewServer(limit.Handler(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}))
	defer front.Close()
	answer, err := front.Client().Get(front.URL)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, []string{`"default";r=9;t=3600;a=9;w=3600`, `"upstream";r=1`}, answer.Header.Values("RateLimit"))
}

func TestCustomDenied(t *testing.T) {
	t.Parallel()
	want := ratelimit.Result{Limit: ratelimit.PerMinute(5), RetryAfter: 1500 * time.Millisecond, ResetAfter: time.Minute}
	h := httplimit.Middleware{
		Limiter: &stub{result: want},
		Key:     httplimit.ByRemoteAddr,
		Denied: func(w http.ResponseWriter, _ *http.Request, result ratelimit.Result) {
			require.Equal(t, want, result)
			require.Equal(t, "2", w.Header().Get("Retry-After"))
			http.Redirect(w, get(), "/slow-down", http.StatusSeeOther)
		},
	}.Handler(ok)
	w := serve(h, get())
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.NotEmpty(t, w.Header().Get("RateLimit"))
}

var _ func(http.Handler) http.Handler = httplimit.Middleware{}.Handler // as routers take it

func TestHandlerPanicsOnMistakes(t *testing.T) {
	t.Parallel()
	good := httplimit.Middleware{Limiter: &stub{}, Key: httplimit.ByRemoteAddr}
	var none *ratelimit.Memory // as a constructor returns it with an error
	for _, test := range []struct {
		want  string
		spoil func(*httplimit.Middleware)
	}{
		{"Middleware.Limiter is nil", func(m *httplimit.Middleware) { m.Limiter = nil }},
		{"Middleware.Limiter is nil", func(m *httplimit.Middleware) { m.Limiter = none }},
		{"Middleware.Key is nil", func(m *httplimit.Middleware) { m.Key = nil }},
		{"Middleware.Name must be", func(m *httplimit.Middleware) { m.Name = "a\"b" }},
		{"Middleware.Name has 65 bytes", func(m *httplimit.Middleware) { m.Name = strings.Repeat("n", 65) }},
		{"Middleware.Timeout is -1ns", func(m *httplimit.Middleware) { m.Timeout = -1 }},
		{"Middleware.Timeout is 50ns, it must be 0 or at least 1ms", func(m *httplimit.Middleware) { m.Timeout = 50 }},
	} {
		bad := good
		test.spoil(&bad)
		require.Contains(t, panicOf(func() { bad.Handler(ok) }), "httplimit: "+test.want)
	}
	require.Contains(t, panicOf(func() { good.Handler(nil) }), "the handler is nil")
	require.Contains(t, panicOf(func() { good.Handler(http.HandlerFunc(nil)) }), "the handler is nil")
}

func panicOf(f func()) (text string) {
	defer func() { text, _ = recover().(string) }()
	f()
	return ""
}
