package ratelimit

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/fixed_window.lua
var fixedWindowLua string

var fixedWindowScript = newScript(&fixedWindowLua, noClock)

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
// begins with the next window.
//
// The error is ErrInvalidLimit for a static Limit out of bounds, or says what
// is wrong with the client or an option.
func NewFixedWindow(rdb redis.UniversalClient, limits Limits, options ...Option) (*Redis, error) {
	return newRedis(FixedWindow, rdb, limits, options)
}

type fixedWindowTwin struct {
	count, end int64 // end in ms
}

func (w *fixedWindowTwin) decide(now int64, q request) answer {
	tick, window := now/1000, millis(q.period)
	count, left := w.count, w.end-tick
	mended := left > window
	if mended {
		left = window
	}
	fresh := left <= 0
	if fresh {
		count, left = 0, 0
	}

	var a answer
	switch {
	case q.n > q.capacity:
		a.retry = never
	case count+q.n > q.rate:
		a.retry = left * 1000
	case !q.peek:
		count += q.n
		if fresh {
			left, mended = window, true
		}
	}
	a.remaining = max(q.rate-count, 0)
	a.reset = left * 1000
	if q.peek {
		return a
	}
	if a.retry == 0 || mended {
		*w = fixedWindowTwin{count, tick + left}
	}
	if mended {
		a.ttl = left
	}
	return a
}
