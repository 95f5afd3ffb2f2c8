package httplimit_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

// Whatever a request has in its headers, address and path: it is charged once,
// the next of its like is refused, and no answer depends on anything but Accept.
func FuzzRequest(f *testing.F) {
	f.Add("10.0.0.1:1", "6.6.6.6, 203.0.113.7", "application/json", "Basic dXNlcjpwYXNz", "session=abc", "key-1", "acme")
	f.Add("[fd00::1%eth0]:1", "for=1.2.3.4;proto=http", "text/*;q=nan, application/json;q=-1", "Basic ====", "session=\"", "\r\nSet-Cookie: a=b", "|ip:1.1.1.1")
	f.Add("@", ",,,\n\n", strings.Repeat("a,", 100), "Bearer x", strings.Repeat("session=a;", 50), "\xff\x00", "{}%7C|")
	f.Add("", "", "", "", "", "", "")
	key := httplimit.Join(
		httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8", "fd00::/8")}.Key,
		httplimit.First(httplimit.ByHeader("X-Api-Key"), httplimit.ByCookie("session"), httplimit.ByBasicAuthUser),
		httplimit.ByPathValue("org"), httplimit.ByPattern)
	f.Fuzz(func(t *testing.T, peer, forwarded, accept, authorization, cookie, apiKey, path string) {
		request := from(peer, strings.Split(forwarded, "\n")...)
		for name, value := range map[string]string{"Accept": accept, "Authorization": authorization, "Cookie": cookie, "X-Api-Key": apiKey} {
			request.Header[name] = []string{value}
		}
		request.SetPathValue("org", path)
		plain := from("203.0.113.1:1")
		plain.Header["Accept"] = []string{accept}

		with := func(limiter ratelimit.Limiter) http.Handler {
			return httplimit.Middleware{Limiter: limiter, Key: key, LegacyHeaders: true}.Handler(ok)
		}
		memory := newMemory(t, ratelimit.TokenBucket, ratelimit.PerDay(1))
		limited, failing := with(memory), with(&stub{err: errors.New("away")})
		for _, step := range []struct {
			handler http.Handler
			code    int
		}{{limited, 200}, {limited, 429}, {failing, 503}} {
			got := serve(step.handler, request)
			require.Equal(t, step.code, got.Code)
			if key(request) == key(plain) {
				return
			}
			other := serve(step.handler, plain)
			require.Equal(t, got.Code, other.Code)
			require.Equal(t, got.Body.String(), other.Body.String())
			require.Equal(t, withoutTimes(got.Header()), withoutTimes(other.Header()))
		}
		require.Equal(t, 2, memory.Len())
	})
}

// withoutTimes leaves out what depends on when the request came.
func withoutTimes(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range []string{"Ratelimit", "Retry-After", "X-Ratelimit-Reset"} {
		h.Del(name)
	}
	return h
}

// Joined keys are equal only if all their parts are, and have no brace to choose
// a cluster slot with.
func FuzzJoin(f *testing.F) {
	f.Add("a", "b|c", "a|b", "c")
	f.Add("a%7Cb", "", "a|b", "")
	f.Add("", "", "|", "")
	f.Add("{a}", "b", "%7Ba%7D", "b")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		join := func(x, y string) string { return httplimit.Join(fixed(x), fixed(y))(get()) }
		first, second := join(a, b), join(c, d)
		require.Equal(t, a == c && b == d, first == second, "%q and %q", first, second)
		require.False(t, strings.ContainsAny(first, "{}"))
		require.Equal(t, a == "" && b == "", first == "")
	})
}

// Whatever the header's name and text are: it matters only from a trusted peer,
// no other header ever does, and an IPv6 client is known by as many bits as set.
func FuzzHeader(f *testing.F) {
	f.Add("10.0.0.1:1", "X-Real-Ip", "203.0.113.7", 64)
	f.Add("203.0.113.7:1", "Forwarded", "for=6.6.6.6", 48)
	f.Add("[2001:db8::1]:1", "", "::1", 129)
	f.Add("10.0.0.1", "x y", "[2001:db8::1%z]:5, fd00::1", 1)
	f.Fuzz(func(t *testing.T, peer, header, value string, bits int) {
		clients := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8"), Header: header, IPv6Bits: bits}
		bare := from(peer)
		r := from(peer)
		for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via", "True-Client-Ip"} {
			if name != http.CanonicalHeaderKey(header) && (name != "X-Forwarded-For" || header != "") {
				r.Header.Add(name, "6.6.6.6")
			}
		}
		require.Equal(t, clients.Key(bare), clients.Key(r), "a header of another name")
		r.Header[http.CanonicalHeaderKey(header)] = []string{value}
		if header == "" {
			r.Header["X-Forwarded-For"] = []string{value}
		}
		key := clients.Key(r)
		if !strings.HasPrefix(clients.Key(bare), "ip:10.") {
			require.Equal(t, clients.Key(bare), key)
		}
		text, found := strings.CutPrefix(key, "ip:")
		require.Equal(t, key != "", found)
		if address, size, v6 := strings.Cut(text, "/"); v6 {
			if bits < 1 || bits > 128 {
				bits = 64
			}
			require.Equal(t, strconv.Itoa(bits), size)
			require.True(t, netip.MustParseAddr(address).Is6())
		} else if found {
			require.True(t, netip.MustParseAddr(text).Is4())
		}
	})
}
