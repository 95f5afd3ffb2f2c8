package ratelimit

import (
	"sync/atomic"
	"time"
)

// A leaseBlock is units that were taken and are handed out in process. All of it but
// left stays as it is made. Times are since the table began. A nil one is empty.
type leaseBlock struct {
	limit     Limit
	capacity  int           // the most units at once
	remaining int           // as told when it was taken
	resets    time.Duration // when the key is as if never used, as told
	ends      time.Duration // when it lapses

	_    [64]byte // so that what all calls read is not in the cache line that they write
	left atomic.Int64
}

// newBlock is the empty block that r tells of, which was asked for at began.
func newBlock(r Result, a Algorithm, began, life time.Duration) *leaseBlock {
	b := &leaseBlock{
		limit:     r.Limit,
		capacity:  r.Limit.capacity(a),
		remaining: r.Remaining,
		resets:    after(began, r.ResetAfter),
		ends:      began + life,
	}
	if a != TokenBucket && a != LeakyBucket && r.Limit.Rate != unlimited {
		// The units must not outlast their window. Its end is uncertain by 2 ms
		// where Redis tells it; for the sliding windows this cuts nothing or little.
		b.ends = min(b.ends, b.resets-2*time.Millisecond)
	}
	return b
}

// blockLife is how long blocks of a limit may be handed out.
func blockLife(l Limit, maxAge time.Duration) time.Duration {
	if l.Rate == unlimited {
		return maxAge
	}
	return min(maxAge, l.Period/10)
}

// take takes n units, if there are so many, and tells how many are left.
func (b *leaseBlock) take(n int, now time.Duration) (left int, ok bool) {
	if b == nil || b.ends <= now {
		return 0, false
	}
	for {
		left := b.left.Load()
		if left < int64(n) {
			return 0, false
		}
		if b.left.CompareAndSwap(left, left-int64(n)) {
			return int(left) - n, true
		}
	}
}

// units is how many could be taken.
func (b *leaseBlock) units(now time.Duration) int {
	if b == nil || b.ends <= now {
		return 0
	}
	return int(b.left.Load())
}

// seal takes all units that are left, so that nobody else does.
func (b *leaseBlock) seal(now time.Duration) int {
	if b == nil {
		return 0
	}
	left := b.left.Swap(0)
	if b.ends <= now {
		return 0
	}
	return int(left)
}

// result is the answer to a call that was allowed from b and has left so many.
func (b *leaseBlock) result(left int, now time.Duration) Result {
	return Result{
		Allowed:    true,
		Limit:      b.limit,
		Remaining:  b.and(b.remaining, left),
		ResetAfter: ceilMicros(max(b.resets-now, 0)),
	}
}

// and is what is free, and left here, together: never more than the capacity.
func (b *leaseBlock) and(free, left int) int {
	if left == 0 {
		return free
	}
	return free + min(left, max(b.capacity-free, 0))
}

// A leasePace is how fast the last block of a key was used.
type leasePace struct {
	taken     int           // at once; 0: nothing is known
	remaining int           // as told then
	began     time.Duration // when they were asked for
	life      time.Duration // how long they could be handed out
	late      bool          // the answer came when they could be no more
}

// next is how many units to take now: at least 1.
func (p leasePace) next(now time.Duration, maxBlock int) int {
	units, lasted := p.taken, now-p.began
	switch {
	case p.late:
		return 1
	case lasted < p.life/2:
		units *= 2
	case lasted >= p.life && p.life > 0:
		units >>= min(lasted/p.life, 62)
	}
	return max(min(units, maxBlock, p.remaining/8), 1)
}
