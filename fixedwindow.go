package ratelimit

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/fixed_window.lua
var fixedWindowLua string

var fixedWindowProgram = newProgram(&fixedWindowLua, noClock)

// NewFixedWindow makes a fixed window: the first call for a key begins a window
// of one Period, in which Rate units can be taken; the first call after its
// end begins the next.
//
// It is the cheapest of the five. Around the boundary of two windows up to
// twice the Rate may pass within a Period. Its time is Redis's expiry, so it
// is counted in milliseconds and a Period is rounded up to a whole one. Best
// for internal quotas.
//
// When the limit changes, what was taken in the window stays taken. A shorter
// Period ends the running window at most one such Period from now; a longer one
// begins with the next window. After a lower Rate more than twice that Rate may be
// taken; it ends with the window like all of it.
//
// The error is ErrInvalidLimit for a static Limit out of bounds, or says what
// is wrong with the client or an option.
func NewFixedWindow(rdb redis.UniversalClient, limits Limits, options ...Option) (*Redis, error) {
	return newRedis(FixedWindow, rdb, limits, options)
}

type fixedWindowTwin struct {
	count, end int64 // end in ms
}

func (w *fixedWindowTwin) look(now int64, q request) view {
	count, left, window := w.count, w.end-now/1000, millis(q.period)
	mended := left > window
	if mended {
		left = window
	}
	if left <= 0 {
		count, left = 0, 0
	}
	return view{free: q.rate - count, state: [3]int64{count, left}, changed: mended}
}

func (w *fixedWindowTwin) wait(_ int64, _ request, v view, _ int64) int64 {
	return v.state[1] * 1000
}

func (w *fixedWindowTwin) put(now int64, q request, v view, n int64) answer {
	count, left := max(v.state[0]+n, 0), v.state[1]
	if n > 0 && left == 0 {
		left, v.changed = millis(q.period), true
	}
	if n < 0 && count == 0 {
		left = 0
	}
	a := answer{remaining: q.rate - count, reset: left * 1000}
	if q.mode == peek {
		return a
	}
	switch {
	case n < 0 && count == 0:
		a.ttl = gone
	case v.changed:
		a.ttl = left
	}
	if n != 0 || v.changed {
		*w = fixedWindowTwin{count, now/1000 + left}
	}
	return a
}

func (w *fixedWindowTwin) mark(now int64, a answer, _ int64) int64 { return (now + a.reset) / 1000 }

// giveBack allows for the ms or two by which the end of a window is uncertain
// where it is read from a TTL.
func (w *fixedWindowTwin) giveBack(now int64, q request, v view, n, mark int64) answer {
	sure := min(2, millis(q.period)-1)
	if off := mark - (now+v.state[1]*1000)/1000; off < -sure || off > sure {
		n = 0
	}
	return w.put(now, q, v, -n)
}
