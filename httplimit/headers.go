package httplimit

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/weirgo/ratelimit"
)

// This file is all that knows how draft-ietf-httpapi-ratelimit-headers writes
// its fields: Lists of Strings with Integer parameters, as of RFC 9651.
//
// Drafts 8 to 11 call what is left r and the seconds that it is to last t. The
// working group's text for draft 12 (November 2026) calls them a and w. All of
// them have recipients pass over parameters they do not know, so both pairs are
// sent until clients have moved on.

// The fields, in the form that an http.Header has them.
const (
	policyField = "Ratelimit-Policy"
	stateField  = "Ratelimit"

	legacyLimit     = "X-Ratelimit-Limit"
	legacyRemaining = "X-Ratelimit-Remaining"
	legacyReset     = "X-Ratelimit-Reset"
)

// largest is the largest Integer of a structured field.
const largest = 999_999_999_999_999

const longestName = 64

// checkName accepts what a String holds without escapes.
func checkName(name string) error {
	if len(name) > longestName {
		return fmt.Errorf("Middleware.Name has %d bytes, it must have at most %d", len(name), longestName)
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return errors.New(`Middleware.Name must be printable ASCII without " and \: ` + strconv.QuoteToASCII(name))
		}
	}
	return nil
}

// addFields adds what result says to the lists that h has, so that policies of
// other limits stand. Nothing is said of an unlimited key, as there is no quota
// to state, nor of the policy where a Limiter does not tell which limit decided.
func addFields(h http.Header, name string, result ratelimit.Result) {
	if result.Limit.Rate == math.MaxInt {
		return
	}
	// One text and one slice serve both fields.
	text := make([]byte, 0, 192)
	if result.Limit != (ratelimit.Limit{}) {
		text = appendPolicy(text, name, result.Limit)
	}
	policy := len(text)
	text = appendState(text, name, result)
	s := string(text)
	values := []string{s[:policy], s[policy:]}
	if policy > 0 {
		add(h, policyField, values[:1:1])
	}
	add(h, stateField, values[1:])
}

func add(h http.Header, field string, values []string) {
	if old := h[field]; len(old) > 0 {
		values = append(old, values...)
	}
	h[field] = values
}

func appendPolicy(b []byte, name string, l ratelimit.Limit) []byte {
	q, w := quota(l)
	b = appendParameter(appendName(b, name), ";q=", q)
	if w > 0 {
		b = appendParameter(b, ";w=", w)
	}
	return b
}

func appendState(b []byte, name string, result ratelimit.Result) []byte {
	left, window := int64(result.Remaining), wait(result)
	b = appendName(b, name)
	for _, keys := range [...][2]string{{";r=", ";t="}, {";a=", ";w="}} {
		b = appendParameter(b, keys[0], left)
		if window > 0 {
			b = appendParameter(b, keys[1], window)
		}
	}
	return b
}

func appendName(b []byte, name string) []byte {
	return append(append(append(b, '"'), name...), '"')
}

func appendParameter(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(append(b, key...), min(max(n, 0), largest), 10)
}

// quota states a limit as q units in w whole seconds, rounded up: never more
// than it lets through. Where a bucket holds more than comes in a period, q is
// its burst and w the time in which that comes back, so that no more is ever
// left than q. w is 0 if there is no such time.
func quota(l ratelimit.Limit) (q, w int64) {
	if l.Rate <= 0 || l.Period <= 0 {
		return int64(max(l.Rate, 0)), seconds(l.Period)
	}
	q = int64(max(l.Rate, l.Burst))
	hi, lo := bits.Mul64(uint64(q), uint64(l.Period))
	if hi >= uint64(l.Rate) {
		return q, largest
	}
	ns, rest := bits.Div64(hi, lo, uint64(l.Rate))
	if rest > 0 && ns < math.MaxUint64 {
		ns++
	}
	w = int64(ns / uint64(time.Second))
	if ns%uint64(time.Second) > 0 {
		w++
	}
	return q, w
}

// wait is the whole seconds after which things are better: the request can
// pass, or else everything is back. 0 if there is nothing to wait for.
func wait(result ratelimit.Result) int64 {
	if s, ok := retryAfter(result); ok {
		return s
	}
	return seconds(result.ResetAfter)
}

// retryAfter is the whole seconds, at least 1, after which a refused request
// can pass; false if it was not refused or can never pass.
func retryAfter(result ratelimit.Result) (int64, bool) {
	if result.Allowed || result.RetryAfter == ratelimit.Never {
		return 0, false
	}
	return max(seconds(result.RetryAfter), 1), true
}

// seconds is d in whole seconds, rounded up, so that nobody comes too early.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return max(s, 0)
}

// setLegacyFields sets the fields that hold one limit each, unless those of a
// limit with less remaining are there. What refuses the request always shows.
func setLegacyFields(h http.Header, result ratelimit.Result) {
	if result.Limit.Rate == math.MaxInt {
		return
	}
	if old := h[legacyRemaining]; result.Allowed && len(old) == 1 {
		if n, err := strconv.Atoi(old[0]); err == nil && n < result.Remaining {
			return
		}
	}
	q, _ := quota(result.Limit)
	text := appendParameter(make([]byte, 0, 64), "", q)
	limit := len(text)
	text = appendParameter(text, "", int64(result.Remaining))
	remaining := len(text)
	s := string(appendParameter(text, "", wait(result)))
	values := []string{s[:limit], s[limit:remaining], s[remaining:]}
	h[legacyLimit], h[legacyRemaining], h[legacyReset] = values[:1:1], values[1:2:2], values[2:]
}
