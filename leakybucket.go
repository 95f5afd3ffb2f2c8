package ratelimit

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/leaky_bucket.lua
var leakyBucketLua string

var leakyBucketScript = newScript(&leakyBucketLua, clock)

// NewLeakyBucket makes a leaky bucket, as a meter: each key has a bucket that
// is empty at first and leaks continuously, Rate units a Period. A call pours
// in as many units as it asks for, if they all fit under Burst. Without a
// Burst it holds one unit, so that calls are strictly paced: one each
// Period / Rate, and a call for two is never allowed.
//
// It refuses what would overflow and delays nothing; a caller who wants to
// queue waits for RetryAfter. In any time t at most Burst + t × Rate / Period
// units pass. Best in front of a backend that bears no bursts.
//
// When the limit changes, the level stays, cut to the new Burst, and the time
// since a call last took units counts at the new rate. A bucket that the
// former limit would have drained by now may be found empty.
//
// The error is ErrInvalidLimit for a static Limit out of bounds, or says what
// is wrong with the client or an option.
func NewLeakyBucket(rdb redis.UniversalClient, limits Limits, options ...Option) (*Redis, error) {
	return newRedis(LeakyBucket, rdb, limits, options)
}

type leakyBucketTwin struct {
	bucketPart
	level, at int64
}

func (b *leakyBucketTwin) decide(now int64, q request) answer {
	level, credit := b.level, b.creditIn(q.period)
	if credit >= q.period {
		level, credit = level+1, credit-q.period
	}
	changed := b.at > now
	if !changed {
		whole, rest := muldiv(now-b.at, q.rate, q.period)
		level, credit = level-whole, credit-rest
		if credit < 0 {
			level, credit = level-1, credit+q.period
		}
	}
	if level < 0 {
		level, credit = 0, 0
	} else if level > q.capacity || level == q.capacity && credit > 0 {
		level, credit, changed = q.capacity, 0, true
	}

	free := q.capacity - level
	if credit > 0 {
		free--
	}
	var a answer
	switch {
	case q.n > q.capacity:
		a.retry = never
	case q.n > free:
		a.retry = span(level+q.n-q.capacity, -credit, q.rate, q.period)
	case !q.peek:
		level, free = level+q.n, free-q.n
	}
	a.remaining = free
	a.reset = span(level, -credit, q.rate, q.period)
	if !q.peek && (a.retry == 0 || changed && a.reset > 0) {
		*b = leakyBucketTwin{bucketPart{credit, q.period}, level, now}
		a.ttl = ttl(now, a.reset)
	}
	return a
}
