package ratelimit

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/sliding_window_counter.lua
var slidingWindowCounterLua string

var slidingWindowCounterProgram = newProgram(&slidingWindowCounterLua, clock)

// NewSlidingWindowCounter makes a sliding window counter: it counts units in
// windows of one Period, the first of which begins with the first call, and
// takes those of the window before as spread evenly over it. A call for n units
// is allowed if
//
//	floor(before × share) + count + n ≤ Rate
//
// where share is how much of the window before is still less than a Period ago.
//
// It needs three numbers a key whatever the rate. By its own estimate no more
// than Rate units pass in a Period; that estimate is as far off as the window
// before was uneven. For even traffic it is close to the exact log; at worst, if
// all of a window came at its end, up to 2 × Rate - 1 units pass in a Period.
// Best for general use.
//
// When the limit changes, the counts stay. A changed Period is taken to have
// been in force since the running window began.
//
// The error is ErrInvalidLimit for a static Limit out of bounds, or says what
// is wrong with the client or an option.
func NewSlidingWindowCounter(rdb redis.UniversalClient, limits Limits, options ...Option) (*Redis, error) {
	return newRedis(SlidingWindowCounter, rdb, limits, options)
}

type slidingWindowCounterTwin struct {
	start, count, before int64
}

func (w *slidingWindowCounterTwin) look(now int64, q request) view {
	start, count, before := w.start, w.count, w.before
	setBack := start > now
	if setBack {
		start = now
	}
	switch windows := (now - start) / q.period; {
	case windows == 1:
		start, count, before = start+q.period, 0, count
	case windows > 1:
		start, count, before = now, 0, 0
	}
	weight, _ := muldiv(before, q.period-(now-start), q.period)
	if count == 0 && weight == 0 {
		start, before = now, 0
	}
	return view{free: q.rate - weight - count, state: [3]int64{start, count, before}, changed: setBack}
}

func (w *slidingWindowCounterTwin) wait(now int64, q request, v view, n int64) int64 {
	start, count, before := v.state[0], v.state[1], v.state[2]
	if count+n <= q.rate {
		return fade(before, q.rate-count-n, q.period) - (now - start)
	}
	return q.period - (now - start) + fade(count, q.rate-n, q.period)
}

func (w *slidingWindowCounterTwin) put(now int64, q request, v view, n int64) answer {
	start, count, before := v.state[0], v.state[1]+n, v.state[2]
	if count < 0 {
		before, count = max(before+count, 0), 0
	}
	var a answer
	elapsed := now - start
	if count > 0 {
		a.reset = q.period - elapsed + fade(count, 0, q.period)
	} else {
		a.reset = max(fade(before, 0, q.period)-elapsed, 0)
	}
	weight, _ := muldiv(before, q.period-elapsed, q.period)
	a.remaining = q.rate - weight - count
	if a.writes(now, q, v, n) {
		*w = slidingWindowCounterTwin{start, count, before}
	}
	return a
}

func (w *slidingWindowCounterTwin) mark(now int64, _ answer, _ int64) int64 { return now }

func (w *slidingWindowCounterTwin) giveBack(now int64, q request, v view, n, mark int64) answer {
	switch start := v.state[0]; {
	case mark >= start:
		n = min(n, v.state[1])
	case mark >= start-q.period:
		v.state[2], v.changed, n = max(v.state[2]-n, 0), true, 0
	default:
		n = 0
	}
	return w.put(now, q, v, -n)
}

// fade is how long into a window it takes until at most most of the units of
// the window before count.
func fade(units, most, period int64) int64 {
	if units <= most {
		return 0
	}
	whole, rest := muldiv(most+1, period, units)
	if rest == 0 {
		whole--
	}
	return period - whole
}
