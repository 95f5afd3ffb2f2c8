package ratelimit

import (
	"math"
	"math/bits"
)

// The arithmetic of the twins: what head.lua does with doubles.

// muldiv is the whole part and the remainder of a * b / c. A whole part that
// would overflow is beyond all bounds and comes back as math.MaxInt64.
func muldiv(a, b, c int64) (whole, rest int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi == 0 {
		q := lo / uint64(c)
		return int64(min(q, math.MaxInt64)), int64(lo - q*uint64(c))
	}
	if hi >= uint64(c) {
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64)), int64(r)
}

// span is the µs, rounded up, in which rate a period makes units less
// credit / period.
func span(units, credit, rate, period int64) int64 {
	if hi, lo := bits.Mul64(uint64(units), uint64(period)); hi == 0 && lo < 1<<62 {
		return ceilDiv(int64(lo)-credit, rate)
	}
	whole, rest := muldiv(units, period, rate)
	return whole + ceilDiv(rest-credit, rate)
}

// ceilDiv is a / b rounded up, for b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if q*b < a {
		q++
	}
	return q
}

// A bucketPart is the fraction of a unit in a bucket, credit / period; its zero
// value is that of a bucket never used.
type bucketPart struct{ credit, period int64 }

func (p bucketPart) used() bool { return p.period != 0 }

// creditIn is the fraction as credit of another period. The scripts keep it as a
// double, from which they get the credit back exactly for the same period; for
// another one it is rounded as they do.
func (p bucketPart) creditIn(period int64) int64 {
	if period == p.period || p.credit == 0 {
		return p.credit
	}
	part := float64(p.credit) / float64(p.period)
	return int64(math.Floor(float64(part*float64(period)) + 0.5))
}

// millis is µs as the whole milliseconds of a TTL, rounded up.
func millis(us int64) int64 { return ceilDiv(us, 1000) }

// ttl is how many ms a key lives whose state counts for reset µs: see head.lua.
func ttl(now, reset int64) int64 {
	if ttl := millis(reset); ttl != 1 {
		return ttl
	}
	return millis(now+reset) - now/1000
}
