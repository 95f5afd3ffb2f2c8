package ratelimit

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/token_bucket.lua
var tokenBucketLua string

var tokenBucketScript = newScript(&tokenBucketLua, clock)

// NewTokenBucket makes a token bucket: each key has a bucket of Burst tokens,
// which is full at first. A call takes as many tokens as the units it asks
// for, if they are all there. Tokens come back continuously, Rate a Period, up
// to Burst. Without a Burst the bucket holds Rate tokens.
//
// It lets bursts through and keeps to the rate in the long run: in any time t
// at most Burst + t × Rate / Period units. Best for public APIs and for people.
//
// When the limit changes, the tokens in the bucket stay, cut to the new Burst,
// and the time since a call last took units counts at the new rate. A bucket
// that the former limit would have filled by now may be found full.
//
// The error is ErrInvalidLimit for a static Limit out of bounds, or says what
// is wrong with the client or an option.
func NewTokenBucket(rdb redis.UniversalClient, limits Limits, options ...Option) (*Redis, error) {
	return newRedis(TokenBucket, rdb, limits, options)
}

type tokenBucketTwin struct {
	bucketPart
	tokens, at int64
}

func (b *tokenBucketTwin) decide(now int64, q request) answer {
	tokens, credit, setBack := q.capacity, int64(0), false
	if b.used() {
		tokens, credit = b.tokens, b.creditIn(q.period)
		setBack = b.at > now
		if !setBack {
			whole, rest := muldiv(now-b.at, q.rate, q.period)
			tokens, credit = min(tokens+min(whole, q.capacity), q.capacity), credit+rest
		}
		if credit >= q.period {
			tokens, credit = tokens+1, credit-q.period
		}
	}
	if tokens >= q.capacity {
		tokens, credit = q.capacity, 0
	}

	var a answer
	switch {
	case q.n > q.capacity:
		a.retry = never
	case q.n > tokens:
		a.retry = span(q.n-tokens, credit, q.rate, q.period)
	case !q.peek:
		tokens -= q.n
	}
	if tokens < q.capacity {
		a.reset = span(q.capacity-tokens, credit, q.rate, q.period)
	}
	a.remaining = tokens
	if !q.peek && (a.retry == 0 || setBack && a.reset > 0) {
		*b = tokenBucketTwin{bucketPart{credit, q.period}, tokens, now}
		a.ttl = ttl(now, a.reset)
	}
	return a
}
