package httplimit_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

// The tests that SECURITY.md names and that stand nowhere else.

// A megabyte of headers costs no more than a list of ordinary length: the work
// for a request does not grow with what a client sends.
func TestManyHeadersCostNothingMore(t *testing.T) {
	t.Parallel()
	clients := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8")}
	h := httplimit.Middleware{Limiter: new(stub), Key: clients.Key}.Handler(ok)
	cost := func(entries int) time.Duration {
		r := from("10.0.0.1:1", strings.Repeat("10.0.0.2, ", entries))
		r.Header["Accept"] = []string{strings.Repeat("a/b;q=0.1,", entries)}
		least := time.Hour
		for range 20 {
			began := time.Now()
			require.Equal(t, http.StatusTooManyRequests, serve(h, r).Code)
			least = min(least, time.Since(began))
		}
		return least
	}
	ordinary, huge := cost(100), cost(100_000)
	require.Less(t, huge, 20*ordinary+time.Millisecond)
}

// A cost that a client can bring below one is one: it is never a refund.
func TestCostIsNoRefund(t *testing.T) {
	t.Parallel()
	cost := 1
	limiter := newMemory(t, ratelimit.FixedWindow, ratelimit.PerHour(5))
	h := httplimit.Middleware{Limiter: limiter, Key: fixed("key"), Cost: func(*http.Request) int { return cost }}.Handler(ok)
	for range 5 {
		require.Equal(t, http.StatusOK, serve(h, get()).Code)
		cost = -1_000_000
	}
	require.Equal(t, http.StatusTooManyRequests, serve(h, get()).Code)
}

// An API key that a client makes up can't be another kind of key, nor NoKey, nor
// part of a joined one.
func TestKeysOfOneKindStayApart(t *testing.T) {
	t.Parallel()
	for _, made := range []string{"none", "ip:203.0.113.7", "user:1", "|ip:203.0.113.7", "path:org:acme"} {
		r := from("203.0.113.7:1")
		r.Header.Set("X-Api-Key", made)
		r.SetPathValue("org", made)
		require.Regexp(t, "^header:X-Api-Key:[0-9a-f]{32}$", httplimit.ByHeader("X-Api-Key")(r))
		require.Equal(t, "path:org:"+made, httplimit.ByPathValue("org")(r))
		require.Equal(t, "ip:203.0.113.7", httplimit.ByRemoteAddr(r))
		require.NotEqual(t, httplimit.Join(fixed(made), fixed(""))(r), httplimit.Join(fixed(""), fixed(made))(r))
	}
}
