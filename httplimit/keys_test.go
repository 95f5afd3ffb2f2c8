package httplimit_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/httplimit"
)

func get(header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/items/7", http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func fixed(key string) httplimit.KeyFunc { return func(*http.Request) string { return key } }

// Keys from secrets tell the values apart and do not show them.
func TestSecretsAreHashed(t *testing.T) {
	t.Parallel()
	basic := func(user, password string) *http.Request {
		r := get()
		r.SetBasicAuth(user, password)
		return r
	}
	for name, test := range map[string]struct {
		key             httplimit.KeyFunc
		prefix          string
		ada, again, bob *http.Request
		missing         []*http.Request
	}{
		"header": {
			httplimit.ByHeader("x-api-key"), "header:X-Api-Key:",
			get("X-Api-Key", "secret-ada"), get("X-API-KEY", "secret-ada", "X-Api-Key", "other"), get("X-Api-Key", "secret-bob"),
			[]*http.Request{get(), get("X-Api-Key", ""), get("X-Other", "secret-ada")},
		},
		"cookie": {
			httplimit.ByCookie("session"), "cookie:session:",
			get("Cookie", "session=secret-ada"), get("Cookie", "a=b; session=secret-ada"), get("Cookie", "session=secret-bob"),
			[]*http.Request{get(), get("Cookie", "session="), get("Cookie", "Session=secret-ada"), get("Cookie", ";;=;")},
		},
		"basic": {
			httplimit.ByBasicAuthUser, "basic:",
			basic("secret-ada", "1"), basic("secret-ada", "2"), basic("secret-bob", "1"),
			[]*http.Request{get(), basic("", "1"), get("Authorization", "Basic %%%"), get("Authorization", "Bearer secret-ada")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := test.key(test.ada)
			require.True(t, strings.HasPrefix(key, test.prefix), key)
			require.Len(t, strings.TrimPrefix(key, test.prefix), 32)
			require.NotContains(t, key, "ada")
			require.Equal(t, key, test.key(test.again))
			require.NotEqual(t, key, test.key(test.bob))
			for _, r := range test.missing {
				require.Empty(t, test.key(r))
			}
		})
	}
}

func TestKeysOfTheRoute(t *testing.T) {
	t.Parallel()
	r := get()
	require.Empty(t, httplimit.ByPattern(r))
	require.Empty(t, httplimit.ByPathValue("id")(r))

	var route, id, other string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(_ http.ResponseWriter, r *http.Request) {
		route, id, other = httplimit.ByPattern(r), httplimit.ByPathValue("id")(r), httplimit.ByPathValue("name")(r)
	})
	mux.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, "route:GET /items/{id}", route)
	require.Equal(t, "path:id:7", id)
	require.Empty(t, other)
}

func TestJoin(t *testing.T) {
	t.Parallel()
	for want, parts := range map[string][2]string{
		"a|bc":              {"a", "bc"},
		"ab|c":              {"ab", "c"},
		"a|":                {"a", ""},
		"|a":                {"", "a"},
		"a%7Cb|c":           {"a|b", "c"},
		"a|b%7Cc":           {"a", "b|c"},
		"a%257Cb|c":         {"a%7Cb", "c"},
		"GET /%7Bid%7D|::1": {"GET /{id}", "::1"},
		"":                  {"", ""},
	} {
		require.Equal(t, want, httplimit.Join(fixed(parts[0]), fixed(parts[1]))(get()))
	}
	nested := httplimit.Join(httplimit.Join(fixed("a"), fixed("b")), fixed("c"))(get())
	require.NotEqual(t, nested, httplimit.Join(fixed("a"), httplimit.Join(fixed("b"), fixed("c")))(get()))
}

// Over many pairs that are made of what could confuse, no two have one key.
func TestJoinIsUnambiguous(t *testing.T) {
	t.Parallel()
	part := func() string {
		b := make([]byte, rand.IntN(4))
		for i := range b {
			b[i] = "a|%7C{}"[rand.IntN(7)]
		}
		return string(b)
	}
	seen := make(map[string][2]string)
	for range 20_000 {
		pair := [2]string{part(), part()}
		key := httplimit.Join(fixed(pair[0]), fixed(pair[1]))(get())
		require.NotContains(t, key, "{")
		require.NotContains(t, key, "}")
		if old, ok := seen[key]; ok {
			require.Equal(t, old, pair)
		}
		seen[key] = pair
	}
}

func TestFirst(t *testing.T) {
	t.Parallel()
	key := httplimit.First(httplimit.ByHeader("X-Api-Key"), httplimit.ByRemoteAddr)
	require.Equal(t, "ip:192.0.2.1", key(get()))
	require.Equal(t, httplimit.ByHeader("X-Api-Key")(get("X-Api-Key", "k")), key(get("X-Api-Key", "k")))
	// A header can't be made to look like an address.
	require.NotEqual(t, "ip:192.0.2.1", key(get("X-Api-Key", "ip:192.0.2.1")))
	require.Empty(t, httplimit.First(httplimit.ByHeader("X-Api-Key"), httplimit.ByPattern)(get()))
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	for name, combine := range map[string]func(...httplimit.KeyFunc) httplimit.KeyFunc{"Join": httplimit.Join, "First": httplimit.First} {
		want := "httplimit: " + name + " needs keys, none of them nil"
		require.PanicsWithValue(t, want, func() { combine() })
		require.PanicsWithValue(t, want, func() { combine(fixed("a"), nil) })

		keys := []httplimit.KeyFunc{fixed("a")}
		key := combine(keys...)
		keys[0] = fixed("b")
		require.Equal(t, "a", key(get()))
	}
}
