package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// ErrNever says that a Wait would never end: the limit never allows so many
// units at once, or it blocks.
var ErrNever = errors.New("ratelimit: never allowed")

// Wait is WaitN for one unit.
func Wait(ctx context.Context, l Limiter, key string) (Result, error) {
	return WaitN(ctx, l, key, 1)
}

// WaitN asks l for n units of key's limit and sleeps until they are allowed. It
// returns the Result that allowed them.
//
// # Errors
//
// It gives up at once where a sleep would be in vain:
//
//   - with ErrNever for a RetryAfter of Never;
//   - with an error that matches context.DeadlineExceeded, and says how long
//     the wait would be, if that would outlast the deadline of ctx;
//   - with the error of l, such as ErrInvalidN, if there is no decision.
//
// If ctx ends, it returns ctx.Err() at once. Where it gives up after a refusal,
// the Result beside the error is that refusal; otherwise it is as l returned it.
//
// # Sleeping
//
// It never asks again before RetryAfter has passed. A lone waiter asks at most
// 1/10 of the time that n units take to come, and at most a second, after it, and
// so needs no more than two calls of l. Who is refused again has competitors, and
// every third time stays away for longer: a random while that grows as the square
// root of the time waited so far. W waiters thus make about 2.5 × √W calls of l for
// each unit that one of them gets, rather than W. Those who wake for the same unit
// do so one by one, and as a rule who has waited longest is first: of 50 waiters
// on 10 a second, who wait for 5 s on average, hardly anyone waits for 15 s.
//
// # What is not promised
//
// There is no queue: waiters, in whatever process, and all other callers compete
// for each unit, and who asks first when it comes gets it. That the longest
// waiter is first is likely, and the less so the more the time of a call is of
// the time in which a unit comes; where units come faster than calls are
// answered, there is no order. Who wants many units is overtaken by those who want
// few. A unit may stay unused for the moment until the next waiter wakes. A limit
// that is raised, and a key that is Reset, is noticed when the sleep ends.
func WaitN(ctx context.Context, l Limiter, key string, n int) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err // l may not look at ctx
	}
	began := time.Now()
	for refusals := 1; ; refusals++ {
		r, err := l.AllowN(ctx, key, n)
		if err != nil || r.Allowed {
			return r, err
		}
		if r.RetryAfter == Never {
			return r, &callError{"wait", key, fmt.Errorf("%w: %d units, the limit is %v", ErrNever, n, r.Limit)}
		}
		sleep := r.RetryAfter
		if sleep <= 0 {
			sleep = time.Millisecond // what no Limiter here says must not end in a busy loop
		}
		late := lateness(unitsTime(r.Limit, n, sleep), time.Since(began), refusals)
		if deadline, ok := ctx.Deadline(); ok {
			left := time.Until(deadline)
			if sleep >= left {
				return r, &callError{"wait", key, fmt.Errorf("it would take %v and the deadline is in %v: %w",
					sleep, left, context.DeadlineExceeded)}
			}
			late = min(late, (left-sleep)/2) // time to ask again
		}
		if err := sleepFor(ctx, sleep+min(late, Never-sleep)); err != nil {
			return r, err
		}
	}
}

// lateness is how long after RetryAfter a waiter wakes who has been refused so
// often in the time waited, where n units take each to come.
//
// After the second and then every third refusal it stays away while some units
// come. That the pauses grow as the root of the time keeps down the calls of many
// waiters, and those who have waited long are away for a small part of it. In
// between it is there for the very next unit: only so has it a fair chance where
// many come at once, as in a window.
//
// Who comes first to a unit gets it, so a waiter's delay falls with each doubling
// of its age. After the time of 2^8 units there is none, but for what keeps
// sleepers from waking together.
func lateness(each, waited time.Duration, refusals int) time.Duration {
	age := float64(waited) / float64(each)
	turn := max(0, 1-math.Log2(1+age)/8)
	delay := float64(min(each/10, time.Second)) * (0.9*turn + 0.1*rand.Float64())
	if refusals%3 == 2 {
		delay += math.Floor(math.Sqrt(age)*(1+2*rand.Float64())) * float64(each)
	}
	return duration(delay)
}

// unitsTime is the time in which n units come, or unknown if l does not tell.
func unitsTime(l Limit, n int, unknown time.Duration) time.Duration {
	if l.Rate < 1 || l.Period < 1 {
		return unknown
	}
	return max(duration(float64(n)*float64(l.Period)/float64(l.Rate)), 1)
}

func duration(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// sleepFor sleeps for d, or until ctx ends and returns its error.
func sleepFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
