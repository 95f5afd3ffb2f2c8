package httplimit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ByRemoteAddr is the address of who has connected: ClientIP{}.Key. Headers play
// no part. Behind a proxy that is the proxy, for all requests: use ClientIP.
func ByRemoteAddr(r *http.Request) string { return ClientIP{}.Key(r) }

// ClientIP finds the address of the client behind proxies; its Key is a KeyFunc.
// The zero ClientIP trusts nobody, and takes the address of who has connected.
//
// A proxy appends the address that it was called from to X-Forwarded-For. What
// stands to the left of that is what the caller sent, which may be anything. So
// the list, all its lines joined, is read from the right: as long as an address
// is a trusted proxy's, the one before it is believed, and the first that is not
// is the client. If all are trusted it is the leftmost. An entry that is no
// address ends the walk at the proxy that sent it.
//
// The key of an IPv4 address is such as "ip:203.0.113.7". An IPv6 client has a
// whole network to choose addresses from, so its key is the network, such as
// "ip:2001:db8:1:2::/64". IPv4-mapped addresses, 6to4 (2002::/16) and NAT64
// (64:ff9b::/96) go by the IPv4 address inside. Ports and zones play no part.
type ClientIP struct {
	// Trusted are the networks of your proxies, and of nobody else: who is in
	// them can pretend to be any client. If a proxy is missing (mind ::1 beside
	// 127.0.0.1), all of its clients share its address as their key.
	Trusted []netip.Prefix

	// TrustUnix trusts peers that have no IP address, as on a Unix socket: for
	// a proxy on the same machine. Without it they have no key.
	TrustUnix bool

	// Header is the header that the proxies write, X-Forwarded-For if "". One
	// that holds a single address, as X-Real-IP does, works as well, if the
	// proxies overwrite what the client sent.
	Header string

	// IPv6Bits is how much of an IPv6 address counts: 1 to 128, where fewer
	// bits put more clients under one key. Anything else, as 0, means 64.
	IPv6Bits int
}

// mostHops is the most entries of the list that are looked at.
const mostHops = 64

// Key is the client's address, as ClientIP describes it; "" if r has none.
func (c ClientIP) Key(r *http.Request) string {
	client, ok := parseHop(r.RemoteAddr)
	if trusted := ok && c.trusts(client) || !ok && c.TrustUnix; trusted {
		if hop, found := c.walk(r.Header.Values(c.header())); found {
			client, ok = hop, true
		}
	}
	if !ok {
		return ""
	}
	return c.key(client)
}

func (c *ClientIP) header() string {
	if c.Header == "" {
		return "X-Forwarded-For"
	}
	return c.Header
}

// walk is the furthest address that trusted proxies vouch for.
func (c *ClientIP) walk(lines []string) (client netip.Addr, found bool) {
	hops := 0
	for _, line := range slices.Backward(lines) {
		for more := true; more; hops++ {
			if hops == mostHops {
				return client, found
			}
			var entry string
			if line, entry, more = cutLast(line); entry == "" {
				continue // a list may have empty elements
			}
			hop, ok := parseHop(entry)
			if !ok {
				return client, found
			}
			client, found = hop, true
			if !c.trusts(hop) {
				return client, found
			}
		}
	}
	return client, found
}

// cutLast cuts the last element off a list; more tells whether others are left.
func cutLast(list string) (rest, last string, more bool) {
	comma := strings.LastIndexByte(list, ',')
	return list[:max(comma, 0)], strings.Trim(list[comma+1:], " \t"), comma >= 0
}

// trusts takes an address without zone, and IPv4 as such.
func (c *ClientIP) trusts(addr netip.Addr) bool {
	for _, network := range c.Trusted {
		if network.Addr().Is4In6() && network.Bits() >= 96 {
			network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
		}
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// longestHop is more than any address with port and zone needs.
const longestHop = 128

// parseHop reads an address with or without port, with or without brackets.
func parseHop(s string) (netip.Addr, bool) {
	if s == "" || len(s) > longestHop {
		return netip.Addr{}, false
	}
	var addr netip.Addr
	var err error
	switch bracketed := s[0] == '['; {
	case bracketed && s[len(s)-1] == ']':
		addr, err = netip.ParseAddr(s[1 : len(s)-1])
	case bracketed || strings.Count(s, ":") == 1:
		var port netip.AddrPort
		port, err = netip.ParseAddrPort(s)
		addr = port.Addr()
	default:
		addr, err = netip.ParseAddr(s)
	}
	return addr.Unmap().WithZone(""), err == nil
}

func (c *ClientIP) key(addr netip.Addr) string {
	if v4, ok := inside(addr); ok {
		addr = v4
	}
	b := append(make([]byte, 0, 64), "ip:"...)
	if addr.Is4() {
		return string(addr.AppendTo(b))
	}
	bits := c.IPv6Bits
	if bits < 1 || bits > 128 {
		bits = 64
	}
	network := netip.PrefixFrom(addr, bits).Masked()
	return string(network.AppendTo(b))
}

var (
	sixToFour = netip.MustParsePrefix("2002::/16")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
)

// inside is the IPv4 address that an IPv6 address stands for: without this, who
// has one IPv4 address has 65,536 networks of 6to4, and all of NAT64 is one.
func inside(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	switch {
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return addr, false
}
