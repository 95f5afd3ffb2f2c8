package ratelimit

import (
	_ "embed"
	"slices"
	"sort"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/sliding_window_log.lua
var slidingWindowLogLua string

var slidingWindowLogScript = newScript(&slidingWindowLogLua, clock)

// NewSlidingWindowLog makes a sliding window log: it keeps the time of every
// unit taken, and a call for n units is allowed if, with them, no more than
// Rate were taken in the Period that ends now.
//
// It is exact, and no bursts pass at any boundary. It needs about 10 bytes a
// unit, so the Rate is at most 1,000,000. A call for many units writes as many
// entries, in one go. Best for high value and for audits.
//
// When the limit changes, the log stays. A shorter Period or a lower Rate takes
// effect in full at once; a longer Period can count only units that the
// former one had not yet forgotten.
//
// The error is ErrInvalidLimit for a static Limit out of bounds, or says what
// is wrong with the client or an option.
func NewSlidingWindowLog(rdb redis.UniversalClient, limits Limits, options ...Option) (*Redis, error) {
	return newRedis(SlidingWindowLog, rdb, limits, options)
}

type slidingWindowLogTwin struct {
	times []int64 // oldest first
	head  int     // where those begin that count
}

func (w *slidingWindowLogTwin) decide(now int64, q request) answer {
	times := w.times[w.head:]
	times = times[until(times, now-q.period):]
	used := int64(len(times))

	var a answer
	setBack := false
	if used > 0 {
		last := times[used-1]
		setBack = last > now
		a.reset = min(last, now) + q.period - now
	}
	switch {
	case q.n > q.capacity:
		a.retry = never
	case used+q.n > q.rate:
		// The last of the units that must leave first.
		a.retry = min(times[used+q.n-q.rate-1], now) + q.period - now
	}
	if !q.peek && (a.retry == 0 || setBack) {
		w.head = len(w.times) - len(times)
		for i := until(times, now); i < len(times); i++ {
			times[i] = now
		}
		if a.retry == 0 {
			w.push(now, int(q.n))
			used, a.reset = used+q.n, q.period
		}
		a.ttl = ttl(now, a.reset)
	}
	a.remaining = max(q.rate-used, 0)
	return a
}

// push adds n times now. It takes the room of those that count no more rather
// than grow, once that is worth the move.
func (w *slidingWindowLogTwin) push(now int64, n int) {
	if w.head > len(w.times)/2 && len(w.times)+n > cap(w.times) {
		w.times = w.times[:copy(w.times, w.times[w.head:])]
		w.head = 0
	}
	w.times = slices.Grow(w.times, n)
	for range n {
		w.times = append(w.times, now)
	}
}

// until is how many of times, oldest first, are at or before edge.
func until(times []int64, edge int64) int {
	return sort.Search(len(times), func(i int) bool { return times[i] > edge })
}
