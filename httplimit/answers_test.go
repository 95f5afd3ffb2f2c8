package httplimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

func TestAnswerKinds(t *testing.T) {
	t.Parallel()
	h := httplimit.Middleware{
		Limiter: &stub{result: ratelimit.Result{Limit: ratelimit.PerMinute(5), RetryAfter: 7 * time.Second}},
		Key:     httplimit.ByRemoteAddr,
	}.Handler(ok)
	for accept, wantJSON := range map[string]bool{
		"":                                     false,
		"*/*":                                  false,
		"text/plain":                           false,
		"image/png":                            false,
		"application/json":                     true,
		"application/problem+json":             true,
		"application/*":                        true,
		"Application/JSON; charset=utf-8":      true,
		"application/json, text/plain, */*":    true, // a usual client's
		"text/html, application/json;q=0.9":    false,
		"text/*;q=0.5, application/json;q=0.6": true,
		"text/html;q=0.2;level=1, application/json ; Q=0.3": true,
		"application/json;q=0":                              false,
		"application/json;q=2":                              false,
		"application/json;q=NaN":                            false,
		"application/json;q=":                               false,
		"application/jsonp":                                 false,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": false, // a browser's
		",;,;=,q=1": false,
		strings.Repeat("a/b,", 31) + "application/json":                 true,
		strings.Repeat("a/b,", 32) + "application/json":                 false,
		"application/json," + strings.Repeat(";q=0,", 10_000) + "text/": true,
	} {
		w := serve(h, get("Accept", accept))
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		if !wantJSON {
			require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"), accept)
			require.Equal(t, "Too Many Requests. Try again in 7 s.\n", w.Body.String())
			continue
		}
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"), accept)
		require.JSONEq(t, `{
			"type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
			"title": "Too Many Requests",
			"status": 429,
			"detail": "Try again in 7 s.",
			"violated-policies": ["default"]
		}`, w.Body.String())
	}
	w := serve(h, get("Accept", "text/html;q=0.1", "Accept", "application/json"))
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
}

// There is no use in waiting, so there is no Retry-After.
func TestNever(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit         ratelimit.Limit
		policy, state string
	}{
		"costs more than there is": {ratelimit.PerMinute(5), `"default";q=5;w=60`, `"default";r=5;a=5`},
		"blocked":                  {ratelimit.Per(0, time.Hour), `"default";q=0;w=3600`, `"default";r=0;a=0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := httplimit.Middleware{
				Limiter: newMemory(t, ratelimit.TokenBucket, test.limit),
				Key:     httplimit.ByRemoteAddr,
				Cost:    func(*http.Request) int { return 6 },
			}.Handler(ok)
			w := httptest.NewRecorder()
			w.Header().Set("Retry-After", "1") // what others left there does not stay
			w.Header().Set("Content-Length", "5")
			h.ServeHTTP(w, get("Accept", "application/json"))
			require.Equal(t, http.StatusTooManyRequests, w.Code)
			require.NotContains(t, w.Header(), "Retry-After")
			require.NotContains(t, w.Header(), "Content-Length")
			require.Equal(t, test.policy, w.Header().Get("RateLimit-Policy"))
			require.Equal(t, test.state, w.Header().Get("RateLimit"))
			require.Contains(t, w.Body.String(), "The request can't pass under this limit.")
		})
	}
}

// No answer tells whom it is about, or why there is no decision.
func TestAnswersTellNoKeyAndNoCause(t *testing.T) {
	t.Parallel()
	for _, limiter := range []*stub{{err: errSecret}, {}} {
		for _, accept := range []string{"text/plain", "application/json"} {
			h := httplimit.Middleware{Limiter: limiter, Key: fixed("user:secret"), Name: "a<b>'&"}.Handler(ok)
			w := serve(h, get("Accept", accept))
			require.GreaterOrEqual(t, w.Code, 429)
			all := fmt.Sprint(w.Body, w.Header())
			for _, secret := range []string{"secret", "redis", "192.0.2.1"} {
				require.NotContains(t, all, secret)
			}
			if accept == "application/json" {
				var body map[string]any
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
				require.EqualValues(t, w.Code, body["status"])
			}
		}
	}
}
