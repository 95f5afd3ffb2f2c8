package ratelimit

import (
	"cmp"
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/token_bucket.lua
var tokenBucketLua string

var tokenBucketProgram = newProgram(&tokenBucketLua, clock)

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
// that the former limit would have filled by now may be found full. A debt, see
// Base.Charge, is paid at the new rate and is never more than the new Burst.
//
// The error is ErrInvalidLimit for a static Limit out of bounds, or says what
// is wrong with the client or an option.
func NewTokenBucket(rdb redis.UniversalClient, limits Limits, options ...Option) (*Redis, error) {
	return newRedis(TokenBucket, rdb, limits, options)
}

type tokenBucketTwin struct {
	bucketPart
	tokens, at int64
	name       int64 // see reserve.lua
}

func (b *tokenBucketTwin) look(now int64, q request) view {
	tokens, credit, changed := q.capacity, int64(0), false
	if b.used() {
		tokens, credit = b.tokens, b.creditIn(q.period)
		changed = b.at > now
		if !changed {
			whole, rest := muldiv(now-b.at, q.rate, q.period)
			tokens, credit = min(tokens+min(whole, maxUnits*3), q.capacity), credit+rest
		}
		if credit >= q.period {
			tokens, credit = tokens+1, credit-q.period
		}
	}
	if tokens >= q.capacity {
		tokens, credit = q.capacity, 0
	} else if tokens < -q.capacity {
		tokens, credit, changed = -q.capacity, 0, true
	}
	return view{free: tokens, state: [3]int64{tokens, credit}, changed: changed}
}

func (b *tokenBucketTwin) wait(_ int64, q request, v view, n int64) int64 {
	return span(n-v.state[0], v.state[1], q.rate, q.period)
}

func (b *tokenBucketTwin) put(now int64, q request, v view, n int64) answer {
	tokens, credit := v.state[0]-n, v.state[1]
	if tokens >= q.capacity {
		tokens, credit = q.capacity, 0
	}
	a := answer{remaining: tokens}
	if tokens < q.capacity {
		a.reset = span(q.capacity-tokens, credit, q.rate, q.period)
	}
	if a.writes(now, q, v, n) {
		if v.free == q.capacity {
			b.name = 0
		}
		b.bucketPart, b.tokens, b.at = bucketPart{credit, q.period}, tokens, now
	}
	return a
}

func (b *tokenBucketTwin) mark(_ int64, _ answer, name int64) int64 {
	b.name = cmp.Or(b.name, name)
	return b.name
}

func (b *tokenBucketTwin) giveBack(now int64, q request, v view, n, mark int64) answer {
	if mark != b.name {
		n = 0
	}
	return b.put(now, q, v, -n)
}
