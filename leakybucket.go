package ratelimit

import (
	"cmp"
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/leaky_bucket.lua
var leakyBucketLua string

var leakyBucketProgram = newProgram(&leakyBucketLua, clock)

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
// former limit would have drained by now may be found empty. A debt, see
// Base.Charge, stays as much over the new Burst as it was over the former one,
// and is never more than the new Burst.
//
// The error is ErrInvalidLimit for a static Limit out of bounds, or says what
// is wrong with the client or an option.
func NewLeakyBucket(rdb redis.UniversalClient, limits Limits, options ...Option) (*Redis, error) {
	return newRedis(LeakyBucket, rdb, limits, options)
}

type leakyBucketTwin struct {
	bucketPart
	level, at int64 // level as the script stores it
	name      int64 // see reserve.lua
}

func (b *leakyBucketTwin) look(now int64, q request) view {
	level, credit, debt := b.level, b.creditIn(q.period), b.level < 0
	if debt {
		level = q.capacity - 1 - level
	}
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
	}
	most := q.capacity
	if debt {
		most *= 2
	}
	if level > most || level == most && credit > 0 {
		level, credit, changed = most, 0, true
	}
	return view{free: q.capacity - leakyUsed(level, credit), state: [3]int64{level, credit}, changed: changed}
}

// leakyUsed is the units that are not free: a part of one takes up a whole one.
func leakyUsed(level, credit int64) int64 {
	if credit > 0 {
		return level + 1
	}
	return level
}

func (b *leakyBucketTwin) wait(_ int64, q request, v view, n int64) int64 {
	return span(v.state[0]+n-q.capacity, -v.state[1], q.rate, q.period)
}

func (b *leakyBucketTwin) put(now int64, q request, v view, n int64) answer {
	level, credit := v.state[0]+n, v.state[1]
	if level < 0 {
		level, credit = 0, 0
	}
	a := answer{remaining: q.capacity - leakyUsed(level, credit), reset: span(level, -credit, q.rate, q.period)}
	if a.writes(now, q, v, n) {
		if v.free == q.capacity {
			b.name = 0
		}
		if a.remaining < 0 {
			level = q.capacity - 1 - level
		}
		b.bucketPart, b.level, b.at = bucketPart{credit, q.period}, level, now
	}
	return a
}

func (b *leakyBucketTwin) mark(_ int64, _ answer, name int64) int64 {
	b.name = cmp.Or(b.name, name)
	return b.name
}

func (b *leakyBucketTwin) giveBack(now int64, q request, v view, n, mark int64) answer {
	if mark != b.name {
		n = 0
	}
	return b.put(now, q, v, -n)
}
