package ratelimit

import (
	_ "embed"
	"slices"
	"sort"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/sliding_window_log.lua
var slidingWindowLogLua string

var slidingWindowLogProgram = newProgram(&slidingWindowLogLua, clock)

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

func (w *slidingWindowLogTwin) look(now int64, q request) view {
	past := w.head + until(w.times[w.head:], now-q.period)
	used := int64(len(w.times) - past)
	changed := used > 0 && w.times[len(w.times)-1] > now
	return view{free: q.rate - used, state: [3]int64{int64(past), used}, changed: changed}
}

// wait is until the last of the units has left that must leave first.
func (w *slidingWindowLogTwin) wait(now int64, q request, v view, n int64) int64 {
	past, used := v.state[0], v.state[1]
	return min(w.times[past+used+n-q.rate-1], now) + q.period - now
}

func (w *slidingWindowLogTwin) put(now int64, q request, v view, n int64) answer {
	past, used := v.state[0], v.state[1]
	back := min(max(-n, 0), used)
	a := answer{remaining: q.rate - used - max(n, -back)}
	times := w.times[past : past+used-back] // those that stay
	if n > 0 {
		a.reset = q.period
	} else if len(times) > 0 {
		a.reset = min(times[len(times)-1], now) + q.period - now
	}
	if a.writes(now, q, v, n) {
		w.head = int(past)
		for i := until(times, now); i < len(times); i++ {
			times[i] = now
		}
		w.times = w.times[:int(past)+len(times)]
		w.push(now, int(max(n, 0)))
	}
	return a
}

func (w *slidingWindowLogTwin) mark(now int64, _ answer, _ int64) int64 { return now }

func (w *slidingWindowLogTwin) giveBack(now int64, q request, v view, n, mark int64) answer {
	if mark > now-q.period {
		kept := w.times[w.head:]
		first, last := w.head+until(kept, mark-1), w.head+until(kept, mark)
		w.times = slices.Delete(w.times, max(first, last-int(n)), last)
	}
	return w.put(now, q, w.look(now, q), 0)
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
