package ratelimit

import (
	"fmt"
	"time"
)

// An Algorithm is one of the five ways to count.
type Algorithm string

// The algorithms. The constructor of each explains it.
const (
	TokenBucket          Algorithm = "token_bucket"
	FixedWindow          Algorithm = "fixed_window"
	SlidingWindowLog     Algorithm = "sliding_window_log"
	SlidingWindowCounter Algorithm = "sliding_window_counter"
	LeakyBucket          Algorithm = "leaky_bucket"
)

// program is the algorithm in Redis, nil if there is no such algorithm.
func (a Algorithm) program() *program {
	switch a {
	case TokenBucket:
		return tokenBucketProgram
	case FixedWindow:
		return fixedWindowProgram
	case SlidingWindowLog:
		return slidingWindowLogProgram
	case SlidingWindowCounter:
		return slidingWindowCounterProgram
	case LeakyBucket:
		return leakyBucketProgram
	}
	return nil
}

// newTwin is the algorithm in process, nil if there is no such algorithm.
func (a Algorithm) newTwin() twin {
	switch a {
	case TokenBucket:
		return new(tokenBucketTwin)
	case FixedWindow:
		return new(fixedWindowTwin)
	case SlidingWindowLog:
		return new(slidingWindowLogTwin)
	case SlidingWindowCounter:
		return new(slidingWindowCounterTwin)
	case LeakyBucket:
		return new(leakyBucketTwin)
	}
	return nil
}

func (a Algorithm) check() error {
	if a.program() == nil {
		return fmt.Errorf("there is no algorithm %q", string(a))
	}
	return nil
}

// A twin is what one key has used, in process. It decides as the script does,
// number for number; its zero value is a key that was never used.
type twin interface {
	// look is what the key has used as of now, in µs.
	look(now int64, q request) view

	// wait is the µs until n more units are free, where they are not now.
	wait(now int64, q request, v view, n int64) int64

	// put takes n units, gives back -n, or only puts right what a changed limit
	// or clock has left. It does not change anything in a peek.
	put(now int64, q request, v view, n int64) answer

	// mark is what tells giveBack whether the units just taken still count. name
	// is for a bucket that has none.
	mark(now int64, a answer, name int64) int64

	// giveBack gives back n units taken at mark, as far as they still count.
	giveBack(now int64, q request, v view, n, mark int64) answer
}

// A view is the state of a key as of one moment.
type view struct {
	free    int64    // units that could be taken; below 0 in debt
	state   [3]int64 // in the algorithm's own terms
	changed bool     // it must be written even if nothing is taken
}

// A mode is what a request does with its units.
type mode string

const (
	take   mode = "take"   // all of them or none
	upTo   mode = "upto"   // as many as are free
	charge mode = "charge" // whatever is free, down to a debt of one capacity; gives back if n is below 0
	peek   mode = "peek"

	reserving mode = "reserve"
	settling  mode = "settle"

	refund mode = "refund" // a charge of -n
)

// A request is what an algorithm is asked.
type request struct {
	mode     mode
	rate     int64
	period   int64 // µs
	capacity int64 // the most units at once
	n        int64
}

// An answer is what an algorithm says, in µs.
type answer struct {
	granted   int64 // units taken, or in a peek those that could be
	remaining int64
	retry     int64 // 0: allowed, never: in no time
	reset     int64
	ttl       int64 // ms that what was written counts; 0: nothing was written, gone: it was deleted. Twins only.
}

const (
	never = -1
	gone  = -1
)

// decide answers q at the time now in µs: see decide.lua.
func decide(t twin, now int64, q request) answer {
	v, n, retry := t.look(now, q), q.n, int64(0)
	switch {
	case q.mode == charge:
		return t.put(now, q, v, min(n, max(v.free+q.capacity, 0))).peeked(t, now, q)
	case q.mode == upTo && n > v.free:
		n = max(v.free, 1)
	}
	granted := n
	switch {
	case n > q.capacity:
		granted, retry = 0, never
	case n > v.free:
		granted, retry = 0, t.wait(now, q, v, n)
	}
	taken := granted
	if q.mode == peek {
		taken = 0
	}
	a := t.put(now, q, v, taken)
	a.granted, a.retry, a.remaining = granted, retry, max(a.remaining, 0)
	return a
}

// writes tells whether putting n units writes a state that counts for a.reset
// µs, and gives a its ttl.
func (a *answer) writes(now int64, q request, v view, n int64) bool {
	switch {
	case q.mode == peek || n == 0 && !v.changed:
		return false
	case a.reset > 0:
		a.ttl = ttl(now, a.reset)
		return true
	case n < 0:
		a.ttl = gone
	}
	return false
}

// settle answers the settlement of taken units, of which q.n were used: see
// reserve.lua.
func settle(t twin, now int64, q request, taken, mark int64) answer {
	v := t.look(now, q)
	var a answer
	if more := q.n - taken; more < 0 {
		a = t.giveBack(now, q, v, -more, mark)
	} else {
		a = t.put(now, q, v, max(min(more, v.free+q.capacity), 0))
	}
	if a.reset == 0 {
		a.ttl = gone
	}
	return a.peeked(t, now, q)
}

// peeked is a as the answer to a peek for one unit, asked after it.
func (a answer) peeked(t twin, now int64, q request) answer {
	if a.granted = 1; a.remaining < 1 {
		q.mode = peek
		a.granted, a.remaining = 0, 0
		a.retry = t.wait(now, q, t.look(now, q), 1)
	}
	return a
}

// mend gives the answer to a call that left its key as it was a ttl where the
// key, which expires at expires in ms, would not live as long as it counts: see
// head.lua.
func (a answer) mend(now, expires int64, q request) answer {
	left := expires - now/1000
	if off := left*1000 - a.reset; q.mode != peek && a.ttl == 0 && a.reset > 0 && (off < -2000 || off > 3000) {
		a.ttl = ttl(now, a.reset)
	}
	return a
}

// request puts a checked limit in an algorithm's terms.
func (a Algorithm) request(l Limit, n int, m mode) request {
	capacity := int64(l.capacity(a))
	most := 3 * capacity // more makes no difference
	switch m {
	case refund:
		m, n = charge, -n
	case settling: // but to what was taken under another limit
		most = 4 * maxUnits
	}
	return request{
		mode:     m,
		rate:     int64(l.Rate),
		period:   l.Period.Microseconds(),
		capacity: capacity,
		n:        min(max(int64(n), -4*maxUnits), most), // never beyond exact numbers
	}
}

// result puts an answer in the caller's terms.
func (a answer) result(l Limit) Result {
	r := Result{
		Allowed:    a.retry == 0,
		Limit:      l,
		Remaining:  int(a.remaining),
		RetryAfter: time.Duration(a.retry) * time.Microsecond,
		ResetAfter: time.Duration(a.reset) * time.Microsecond,
	}
	if a.retry == never {
		r.RetryAfter = Never
	}
	return r
}

// fixed is the answer to n of a limit that needs no state, if l is one.
func (l Limit) fixed(n int) (granted int, r Result, ok bool) {
	switch l.Rate {
	case unlimited:
		return n, Result{Allowed: true, Limit: l, Remaining: unlimited}, true
	case 0:
		return 0, Result{Limit: l, RetryAfter: Never}, true
	}
	return 0, Result{}, false
}
