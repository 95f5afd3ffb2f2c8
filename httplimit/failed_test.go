package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

var errSecret = errors.New("dial redis.internal:6379 for key ip:192.0.2.1")

func TestFailed(t *testing.T) {
	t.Parallel()
	limit := httplimit.Middleware{Limiter: &stub{err: errSecret}, Key: httplimit.ByRemoteAddr}
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		w := serve(limit.Handler(ok), get())
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "Service Unavailable. The request could not be checked against its limit.\n", w.Body.String())
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		for _, field := range []string{"RateLimit", "RateLimit-Policy", "Retry-After"} {
			require.Empty(t, w.Header().Values(field))
		}
	})
	t.Run("open", func(t *testing.T) {
		t.Parallel()
		open := limit
		open.Failed = httplimit.FailOpen
		w := serve(open.Handler(ok), get())
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "ok", w.Body.String())
		require.Empty(t, w.Header().Values("RateLimit"))
	})
	t.Run("own", func(t *testing.T) {
		t.Parallel()
		own := limit
		own.Failed = func(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
			require.ErrorIs(t, err, errSecret)
			w.WriteHeader(http.StatusBadGateway)
			next.ServeHTTP(w, r)
		}
		require.Equal(t, http.StatusBadGateway, serve(own.Handler(ok), get()).Code)
	})
}

// Who cancels each request would else be unlimited wherever failures let through.
func TestCanceledRequestIsNotLetThrough(t *testing.T) {
	t.Parallel()
	h := httplimit.Middleware{
		Limiter: newMemory(t, ratelimit.FixedWindow, ratelimit.PerHour(1)),
		Key:     httplimit.ByRemoteAddr,
		Failed:  httplimit.FailOpen,
	}.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let through") }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, http.StatusServiceUnavailable, serve(h, get().WithContext(ctx)).Code)
}

type contextKey struct{}

// The limiter has the values of the request's context, and Timeout bounds it.
func TestContext(t *testing.T) {
	t.Parallel()
	s := &stub{result: ratelimit.Result{Allowed: true}}
	limit := httplimit.Middleware{Limiter: s, Key: httplimit.ByRemoteAddr}
	r := get().WithContext(context.WithValue(t.Context(), contextKey{}, "pro"))
	serve(limit.Handler(ok), r)
	require.Equal(t, "pro", s.ctx.Value(contextKey{}))
	_, bounded := s.ctx.Deadline()
	require.False(t, bounded)

	limit.Timeout = time.Hour
	serve(limit.Handler(ok), r)
	require.Equal(t, "pro", s.ctx.Value(contextKey{}))
	deadline, bounded := s.ctx.Deadline()
	require.True(t, bounded)
	require.WithinDuration(t, time.Now().Add(time.Hour), deadline, time.Minute)
	require.Error(t, s.ctx.Err()) // released with the decision
}
