package ratelimit

import (
	"cmp"
	"slices"
	"time"
)

// A denial is what a key was refused. It never changes.
type denial struct {
	hash      uint64
	key       string
	limit     Limit
	remaining int
	resets    time.Duration // like all times here since the table began
	ends      time.Duration // when the last of the refusals is over
	refusals  []refusal     // smallest n first
}

// A refusal says that n units or more are not to be had until then.
type refusal struct {
	n     int
	until time.Duration
	never bool // nor after it
}

const (
	neverFor    = time.Second // how long a refusal is remembered that has no end
	maxRefusals = 4           // of a key, for different n
)

// newDenial is what is known of a key at the time now, when r was told to a
// call for n units and old was known before; nil if r's wait is over.
func newDenial(call denyCall, n int, r Result, old *denial, now time.Duration) *denial {
	// The limiter decided after the call began, so this ends no later than told.
	told := refusal{n: n, until: after(call.began, r.RetryAfter)}
	if r.RetryAfter == Never {
		told = refusal{n: n, until: call.began + neverFor, never: true}
	}
	if told.until <= now {
		return nil
	}
	refusals := []refusal{told}
	if old != nil && old.limit == r.Limit {
		for _, o := range old.refusals {
			if o.until > now && o.n != n && (o.n < n || o.never || o.until > told.until) {
				refusals = append(refusals, o)
			}
		}
	}
	slices.SortFunc(refusals, func(a, b refusal) int { return cmp.Compare(a.n, b.n) })
	refusals = refusals[:min(len(refusals), maxRefusals)] // the smallest n refuse the most calls
	d := &denial{
		hash:      call.hash,
		key:       call.key,
		limit:     r.Limit,
		remaining: r.Remaining,
		resets:    after(call.began, r.ResetAfter),
		refusals:  refusals,
	}
	for _, o := range refusals {
		d.ends = max(d.ends, o.until)
	}
	return d
}

// after is began + d, or a century and more away where that would overflow.
func after(began, d time.Duration) time.Duration { return began + min(d, Never/2) }

// answer is what a call for n gets at the time now, if it is refused here.
func (d *denial) answer(n int, now time.Duration) (Result, bool) {
	if d == nil || d.ends <= now {
		return Result{}, false
	}
	var wait time.Duration
	for _, r := range d.refusals {
		switch {
		case r.n > n || r.until <= now:
		case r.never:
			wait = Never
		default:
			wait = max(wait, ceilMicros(r.until-now))
		}
	}
	if wait == 0 {
		return Result{}, false
	}
	return Result{
		Limit:      d.limit,
		Remaining:  d.remaining,
		RetryAfter: wait,
		ResetAfter: ceilMicros(max(d.resets-now, 0)),
	}, true
}

// is tells whether d is the denial of that key.
func (d *denial) is(hash uint64, key string) bool {
	return d != nil && d.hash == hash && d.key == key
}

// ceilMicros is d in whole microseconds, in which all limiters tell time.
func ceilMicros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}
