package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// A KeyFunc says whose limit a request counts against; "" if the request does
// not tell. It is called once a request and must be safe for many goroutines.
//
// The keys of this package begin with their kind, such as "ip:", so that those
// of different kinds never meet. One of your own is as simple as
//
//	func(r *http.Request) string { return "user:" + userOf(r.Context()) }
//
// Keys are kept in Redis as they are: hash what must not be read there.
type KeyFunc func(*http.Request) string

// NoKey is the key of all requests whose KeyFunc returns "". They are limited
// together: nobody gets around a limit by leaving out a header, and who does
// send it is not touched. Where such requests are normal, name a second choice
// with First. A LimitFunc can give NoKey a limit of its own.
const NoKey = "none"

// ByHeader is the key in a header, such as an API key: hashed, as it may be a
// secret, such as "header:X-Api-Key:c019e836e55a62b0…". A LimitFunc that needs
// the plan of an API key finds it in the context, where what checked the key has
// put it. The request has no key where the header is missing or empty; of several lines
// the first counts.
//
// A client can make up a new value for each request. Limit by a header behind
// what checks it, or beside a limit by address.
func ByHeader(name string) KeyFunc {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) string { return hashed("header:", name, r.Header.Get(name)) }
}

// ByCookie is the key in a cookie, hashed, such as "cookie:session:5feceb66ffc8…".
// What ByHeader says of values that
// are missing or made up is true of it too.
func ByCookie(name string) KeyFunc {
	return func(r *http.Request) string {
		cookie, err := r.Cookie(name)
		if err != nil {
			return ""
		}
		return hashed("cookie:", name, cookie.Value)
	}
}

// ByBasicAuthUser is the user name of HTTP basic authentication, hashed, as some
// services have their API key there, such as "basic:81b637d8fcd2…". The password plays no part and is not
// checked: see ByHeader on values that are made up.
func ByBasicAuthUser(r *http.Request) string {
	user, _, _ := r.BasicAuth()
	return hashed("basic", "", user)
}

// ByPathValue is the value of a wildcard in the pattern that matched, as it
// stands in the path, such as "path:org:acme". Only a handler that is registered with the pattern has it:
// wrap that one, not the mux.
func ByPathValue(name string) KeyFunc {
	return func(r *http.Request) string {
		value := r.PathValue(name)
		if value == "" {
			return ""
		}
		return "path:" + name + ":" + value
	}
}

// ByPattern is the pattern that matched, such as "route:GET /o/{org}": one limit for all requests to a route,
// or with Join one for each client and route. As for ByPathValue, wrap the
// handlers and not the mux.
func ByPattern(r *http.Request) string {
	if r.Pattern == "" {
		return ""
	}
	return "route:" + r.Pattern
}

// escape keeps a part of a joined key from looking like two. Braces go as well:
// in Redis they would choose the cluster slot, and {id} one for a whole route.
var escape = strings.NewReplacer("%", "%25", "|", "%7C", "{", "%7B", "}", "%7D")

// Join is the key of all keys together, such as "path:org:acme|ip:192.0.2.1": one
// limit for each combination. The parts
// stand between bars, with %, |, { and } in them percent-encoded, so that two
// combinations never have the same key. A missing part is empty; if all are, the
// request has no key. Join panics without keys or with a nil one.
func Join(keys ...KeyFunc) KeyFunc {
	keys = checked("Join", keys)
	return func(r *http.Request) string {
		var b strings.Builder
		some := false
		for i, key := range keys {
			if i > 0 {
				b.WriteByte('|')
			}
			part := key(r)
			some = some || part != ""
			_, _ = escape.WriteString(&b, part) // a Builder does not fail
		}
		if !some {
			return ""
		}
		return b.String()
	}
}

// First is the first of the keys that the request has: for example the API key,
// else the address. First panics without keys or with a nil one.
func First(keys ...KeyFunc) KeyFunc {
	keys = checked("First", keys)
	return func(r *http.Request) string {
		for _, key := range keys {
			if k := key(r); k != "" {
				return k
			}
		}
		return ""
	}
}

func checked(caller string, keys []KeyFunc) []KeyFunc {
	if len(keys) == 0 || slices.ContainsFunc(keys, func(k KeyFunc) bool { return k == nil }) {
		panic("httplimit: " + caller + " needs keys, none of them nil")
	}
	return slices.Clone(keys)
}

// hashed is a key from which value can't be read: 128 bits of its SHA-256.
func hashed(kind, name, value string) string {
	if value == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(value))
	return kind + name + ":" + hex.EncodeToString(sum[:16])
}
