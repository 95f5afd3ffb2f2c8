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

// script is the algorithm in Redis, nil if there is no such algorithm.
func (a Algorithm) script() *script {
	switch a {
	case TokenBucket:
		return tokenBucketScript()
	case FixedWindow:
		return fixedWindowScript()
	case SlidingWindowLog:
		return slidingWindowLogScript()
	case SlidingWindowCounter:
		return slidingWindowCounterScript()
	case LeakyBucket:
		return leakyBucketScript()
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
	if a.script() == nil {
		return fmt.Errorf("there is no algorithm %q", string(a))
	}
	return nil
}

// A twin is what one key has used, in process. It decides as the script does,
// number for number; its zero value is a key that was never used.
type twin interface {
	// decide answers q at the time now in µs.
	decide(now int64, q request) answer
}

// A request is what an algorithm is asked.
type request struct {
	rate     int64
	period   int64 // µs
	capacity int64 // the most units at once
	n        int64
	peek     bool
}

// An answer is what an algorithm says, in µs.
type answer struct {
	remaining int64
	retry     int64 // 0: allowed, never: in no time
	reset     int64
	ttl       int64 // ms that what was written counts; 0: nothing was written. Twins only.
}

const never = -1

// mend gives the answer to a refused call a ttl where the key, which expires
// at expires in ms, would not live as long as it counts: see head.lua.
func (a answer) mend(now, expires int64, q request) answer {
	left := expires - now/1000
	if off := left*1000 - a.reset; !q.peek && a.ttl == 0 && a.reset > 0 && (off < -2000 || off > 3000) {
		a.ttl = ttl(now, a.reset)
	}
	return a
}

// request puts a checked limit in an algorithm's terms.
func (a Algorithm) request(l Limit, n int, peek bool) request {
	capacity := int64(l.capacity(a))
	return request{
		rate:     int64(l.Rate),
		period:   l.Period.Microseconds(),
		capacity: capacity,
		n:        min(int64(n), capacity+1), // never beyond exact numbers, refused all the same
		peek:     peek,
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

// fixed is the result of a limit that needs no state, if l is one.
func (l Limit) fixed() (Result, bool) {
	switch l.Rate {
	case unlimited:
		return Result{Allowed: true, Limit: l, Remaining: unlimited}, true
	case 0:
		return Result{Limit: l, RetryAfter: Never}, true
	}
	return Result{}, false
}
