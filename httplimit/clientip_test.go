package httplimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/httplimit"
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// from is a request of a peer, with lines of X-Forwarded-For.
func from(peer string, lines ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = peer
	r.Header["X-Forwarded-For"] = lines
	return r
}

// What ByRemoteAddr and ClientIP{} make of who has connected.
func TestPeer(t *testing.T) {
	t.Parallel()
	for peer, want := range map[string]string{
		"203.0.113.7:1234":                     "ip:203.0.113.7",
		"203.0.113.7":                          "ip:203.0.113.7", // as some routers leave it
		"0.0.0.0:1":                            "ip:0.0.0.0",
		"255.255.255.255:65535":                "ip:255.255.255.255",
		"[::ffff:203.0.113.7]:1234":            "ip:203.0.113.7", // IPv4-mapped
		"[::ffff:cb00:7107]:1234":              "ip:203.0.113.7",
		"[2001:db8:1:2:3:4:5:6]:1234":          "ip:2001:db8:1:2::/64",
		"[2001:db8:1:2::]:1234":                "ip:2001:db8:1:2::/64",
		"[2001:DB8:1:2:FFFF:FFFF:FFFF:FFFF]:1": "ip:2001:db8:1:2::/64",
		"2001:db8:1:2::1":                      "ip:2001:db8:1:2::/64",
		"[2001:db8:1:2::1]":                    "ip:2001:db8:1:2::/64",
		"[2001:db8:1:3::1]:1234":               "ip:2001:db8:1:3::/64",
		"[::1]:80":                             "ip:::/64",
		"[fe80::1%eth0]:1234":                  "ip:fe80::/64",
		"[fe80::1%25en1]:1234":                 "ip:fe80::/64",
		"fe80::1%eth0":                         "ip:fe80::/64",
		"[::ffff:203.0.113.7%eth0]:1234":       "ip:203.0.113.7",
		"[2002:cb00:7107::1]:1234":             "ip:203.0.113.7", // 6to4
		"[2002:cb00:7107:ffff::1]:1234":        "ip:203.0.113.7",
		"[2003:cb00:7107::1]:1234":             "ip:2003:cb00:7107::/64",
		"[64:ff9b::203.0.113.7]:1234":          "ip:203.0.113.7", // NAT64
		"[64:ff9b::cb00:7108]:1234":            "ip:203.0.113.8",
		"[64:ff9b:0:0:1::cb00:7107]:1234":      "ip:64:ff9b::/64",
		"@":                                    "", // a Unix socket
		"":                                     "",
		"/run/app.sock":                        "",
		"pipe":                                 "",
		"203.0.113.7:":                         "",
		"203.0.113.7:99999":                    "",
		"203.0.113.256:1":                      "",
		"203.0.113.07:1":                       "",
		"203.0.113:1":                          "",
		"3405803783":                           "",
		"0xcb.0.0.1":                           "",
		"[203.0.113.7":                         "",
		"[]":                                   "",
		"[]:80":                                "",
		":80":                                  "",
		"[[::1]]:80":                           "",
		"example.com:80":                       "",
		"\t203.0.113.7:80":                     "",
		"203.0.113.7\x00:80":                   "",
		"[fe80::1%" + strings.Repeat("z", 200) + "]:1": "",
	} {
		// A header that nobody may believe.
		require.Equal(t, want, httplimit.ByRemoteAddr(from(peer, "6.6.6.6")), "%q", peer)
		require.Equal(t, want, httplimit.ClientIP{}.Key(from(peer)), "%q", peer)
	}
}

// What ClientIP makes of X-Forwarded-For. The proxies are in 10.0.0.0/8 and
// fd00::/8; 6.6.6.6 is what a client made up.
func TestForwardedFor(t *testing.T) {
	t.Parallel()
	const proxy = "10.0.0.1:5000"
	for name, test := range map[string]struct {
		peer  string
		lines []string
		want  string
	}{
		"untrusted peer":             {"198.51.100.9:1", []string{"6.6.6.6"}, "ip:198.51.100.9"},
		"untrusted, claims a proxy":  {"198.51.100.9:1", []string{"6.6.6.6, 10.0.0.1"}, "ip:198.51.100.9"},
		"untrusted IPv6 peer":        {"[2001:db8::1]:1", []string{"6.6.6.6"}, "ip:2001:db8::/64"},
		"no header":                  {proxy, nil, "ip:10.0.0.1"},
		"empty header":               {proxy, []string{""}, "ip:10.0.0.1"},
		"only commas":                {proxy, []string{" , ,,\t"}, "ip:10.0.0.1"},
		"one hop":                    {proxy, []string{"203.0.113.7"}, "ip:203.0.113.7"},
		"spaces":                     {proxy, []string{" \t203.0.113.7 "}, "ip:203.0.113.7"},
		"made up before":             {proxy, []string{"6.6.6.6, 203.0.113.7"}, "ip:203.0.113.7"},
		"made up, a proxy before":    {proxy, []string{"10.0.0.9, 203.0.113.7"}, "ip:203.0.113.7"},
		"garbage before":             {proxy, []string{"<script>, 203.0.113.7"}, "ip:203.0.113.7"},
		"two proxies":                {proxy, []string{"6.6.6.6, 203.0.113.7, 10.0.0.2"}, "ip:203.0.113.7"},
		"several lines":              {proxy, []string{"6.6.6.6", "203.0.113.7", "10.0.0.2"}, "ip:203.0.113.7"},
		"lines of lists":             {proxy, []string{"6.6.6.6, 6.6.6.7", "203.0.113.7, 10.0.0.2"}, "ip:203.0.113.7"},
		"empty last line":            {proxy, []string{"203.0.113.7", ""}, "ip:203.0.113.7"},
		"empty elements":             {proxy, []string{"6.6.6.6,,203.0.113.7,,"}, "ip:203.0.113.7"},
		"all trusted":                {proxy, []string{"10.0.0.7, 10.0.0.2"}, "ip:10.0.0.7"},
		"with port":                  {proxy, []string{"203.0.113.7:4711"}, "ip:203.0.113.7"},
		"IPv6":                       {proxy, []string{"2001:db8:1:2::7"}, "ip:2001:db8:1:2::/64"},
		"IPv6 in brackets":           {proxy, []string{"[2001:db8:1:2::7]"}, "ip:2001:db8:1:2::/64"},
		"IPv6 with port":             {proxy, []string{"[2001:db8:1:2::7]:4711"}, "ip:2001:db8:1:2::/64"},
		"IPv6 with zone":             {proxy, []string{"fe80::7%eth0"}, "ip:fe80::/64"},
		"IPv4-mapped client":         {proxy, []string{"6.6.6.6, ::ffff:203.0.113.7"}, "ip:203.0.113.7"},
		"IPv4-mapped proxy":          {proxy, []string{"203.0.113.7, ::ffff:10.0.0.2"}, "ip:203.0.113.7"},
		"IPv4-mapped peer":           {"[::ffff:10.0.0.1]:1", []string{"203.0.113.7"}, "ip:203.0.113.7"},
		"IPv6 peer":                  {"[fd00::1]:1", []string{"203.0.113.7"}, "ip:203.0.113.7"},
		"IPv6 peer with zone":        {"[fd00::1%eth0]:1", []string{"203.0.113.7"}, "ip:203.0.113.7"},
		"6to4 client":                {proxy, []string{"2002:cb00:7107::1"}, "ip:203.0.113.7"},
		"6to4 of a proxy's address":  {proxy, []string{"6.6.6.6, 2002:0a00:0001::1"}, "ip:10.0.0.1"},
		"NAT64 of a proxy's address": {proxy, []string{"6.6.6.6, 64:ff9b::10.0.0.1"}, "ip:10.0.0.1"},
		"unknown":                    {proxy, []string{"6.6.6.6, unknown"}, "ip:10.0.0.1"},
		"unknown before a proxy":     {proxy, []string{"6.6.6.6, unknown, 10.0.0.2"}, "ip:10.0.0.2"},
		"hidden":                     {proxy, []string{"_SEVKISEK"}, "ip:10.0.0.1"},
		"a name":                     {proxy, []string{"client.example.com"}, "ip:10.0.0.1"},
		"quoted":                     {proxy, []string{`"203.0.113.7"`}, "ip:10.0.0.1"},
		"semicolons":                 {proxy, []string{"6.6.6.6;203.0.113.7"}, "ip:10.0.0.1"},
		"too long":                   {proxy, []string{"6.6.6.6, " + strings.Repeat("7", 10_000)}, "ip:10.0.0.1"},
		"bytes":                      {proxy, []string{"6.6.6.6, \xff\x00\r\n"}, "ip:10.0.0.1"},
		"endless proxies":            {proxy, []string{"6.6.6.6" + strings.Repeat(", 10.0.0.2", 100_000)}, "ip:10.0.0.2"},
		"endless commas":             {proxy, []string{"6.6.6.6" + strings.Repeat(",", 100_000)}, "ip:10.0.0.1"},
		"endless lines":              {proxy, append([]string{"6.6.6.6"}, make([]string, 100_000)...), "ip:10.0.0.1"},
		"Unix socket":                {"@", []string{"203.0.113.7"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8", "fd00::/8")}
			require.Equal(t, test.want, clients.Key(from(test.peer, test.lines...)))
		})
	}
}

func TestClientIPFields(t *testing.T) {
	t.Parallel()
	t.Run("Unix socket", func(t *testing.T) {
		t.Parallel()
		local := httplimit.ClientIP{TrustUnix: true}
		require.Equal(t, "ip:203.0.113.7", local.Key(from("@", "6.6.6.6, 203.0.113.7")))
		require.Equal(t, "ip:203.0.113.7", local.Key(from("", "203.0.113.7")))
		require.Empty(t, local.Key(from("@")))
		require.Empty(t, local.Key(from("@", "unknown")))
		require.Equal(t, "ip:198.51.100.9", local.Key(from("198.51.100.9:1", "6.6.6.6")))
	})
	t.Run("IPv4-mapped network", func(t *testing.T) {
		t.Parallel()
		clients := httplimit.ClientIP{Trusted: prefixes("::ffff:10.0.0.0/104")}
		require.Equal(t, "ip:203.0.113.7", clients.Key(from("10.0.0.1:1", "203.0.113.7")))
		require.Equal(t, "ip:11.0.0.1", clients.Key(from("11.0.0.1:1", "203.0.113.7")))
	})
	t.Run("zero network", func(t *testing.T) {
		t.Parallel()
		clients := httplimit.ClientIP{Trusted: make([]netip.Prefix, 1)}
		require.Equal(t, "ip:10.0.0.1", clients.Key(from("10.0.0.1:1", "203.0.113.7")))
	})
	t.Run("other header", func(t *testing.T) {
		t.Parallel()
		clients := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8"), Header: "x-real-ip"}
		r := from("10.0.0.1:1", "6.6.6.6")
		r.Header.Set("X-Real-IP", "203.0.113.7")
		require.Equal(t, "ip:203.0.113.7", clients.Key(r))
	})
	t.Run("IPv6 bits", func(t *testing.T) {
		t.Parallel()
		for bits, want := range map[int]string{
			0: "ip:2001:db8:1234:5678::/64", 48: "ip:2001:db8:1234::/48", 56: "ip:2001:db8:1234:5600::/56",
			1: "ip:::/1", 128: "ip:2001:db8:1234:5678::7/128", 129: "ip:2001:db8:1234:5678::/64", -1: "ip:2001:db8:1234:5678::/64",
		} {
			require.Equal(t, want, httplimit.ClientIP{IPv6Bits: bits}.Key(from("[2001:db8:1234:5678::7]:1")))
		}
	})
}

// Who has a /64 has 2^64 addresses, and one limit.
func TestOneKeyForEachIPv6Network(t *testing.T) {
	t.Parallel()
	keys := make(map[string]bool)
	for range 10_000 {
		low := rand.Uint64()
		addr := fmt.Sprintf("2001:db8:1:2:%x:%x:%x:%x", low>>48, low>>32&0xffff, low>>16&0xffff, low&0xffff)
		keys[httplimit.ByRemoteAddr(from("["+addr+"]:1"))] = true
	}
	require.Equal(t, map[string]bool{"ip:2001:db8:1:2::/64": true}, keys)
}

// Whatever a client sends in whatever header, it stays who it is.
func TestSpoofedHeadersChangeNothing(t *testing.T) {
	t.Parallel()
	clients := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8")}
	for range 1000 {
		made := fmt.Sprintf("%d.%d.%d.%d", rand.IntN(256), rand.IntN(256), rand.IntN(256), rand.IntN(256))
		direct := from("198.51.100.9:1", made)
		for _, header := range []string{"X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "Forwarded"} {
			direct.Header.Set(header, made)
		}
		require.Equal(t, "ip:198.51.100.9", clients.Key(direct))
		require.Equal(t, "ip:198.51.100.9", httplimit.ByRemoteAddr(direct))
		require.Equal(t, "ip:198.51.100.9", clients.Key(from("10.0.0.1:1", made+", 198.51.100.9")))
	}
}
