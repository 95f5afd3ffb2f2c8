package httplimit_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/httplimit"
)

// Whatever the peer and the header are: a key is one address or network, the
// header matters only if the peer is trusted, and to the left of the first
// address that is not trusted nothing matters.
func FuzzClientIP(f *testing.F) {
	for _, seed := range [][2]string{
		{"10.0.0.1:1", "6.6.6.6, 203.0.113.7"},
		{"[::ffff:10.0.0.1%eth0]:1", "[2001:db8::1]:80,10.0.0.2"},
		{"@", "unknown"},
		{"198.51.100.9:1", ",,\n ,"},
		{"fd00::1", "2002:cb00:7107::1\n64:ff9b::1.2.3.4"},
	} {
		f.Add(seed[0], seed[1])
	}
	clients := httplimit.ClientIP{Trusted: prefixes("10.0.0.0/8", "fd00::/8")}
	f.Fuzz(func(t *testing.T, peer, list string) {
		r := from(peer, strings.Split(list, "\n")...)
		direct, key := httplimit.ByRemoteAddr(r), clients.Key(r)
		requireAddress(t, direct)
		requireAddress(t, key)
		if direct == "" {
			require.Empty(t, key)
			return
		}
		if !strings.HasPrefix(direct, "ip:10.") && !strings.HasPrefix(direct, "ip:fd") {
			require.Equal(t, direct, key)
		}
		const client = "203.0.113.7"
		require.Equal(t, "ip:"+client, clients.Key(from("10.0.0.1:1", list, client)))
		require.Equal(t, "ip:"+client, clients.Key(from("10.0.0.1:1", list+","+client)))
	})
}

func requireAddress(t *testing.T, key string) {
	t.Helper()
	if key == "" {
		return
	}
	text, ok := strings.CutPrefix(key, "ip:")
	require.True(t, ok)
	if network, err := netip.ParsePrefix(text); err == nil {
		require.Equal(t, 64, network.Bits())
		require.Equal(t, network.Masked(), network)
		return
	}
	addr, err := netip.ParseAddr(text)
	require.NoError(t, err)
	require.True(t, addr.Is4())
}
