package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A BreakerState says whether a Fallback asks its Primary.
type BreakerState int

// The states of a Fallback's breaker.
const (
	BreakerClosed   BreakerState = iota // Primary is asked
	BreakerOpen                         // Primary is left alone
	BreakerHalfOpen                     // Primary is asked by one call at a time, to see whether it is well
)

// String is "closed", "open" or "half-open".
func (s BreakerState) String() string {
	switch s {
	case BreakerClosed:
		return "closed"
	case BreakerOpen:
		return "open"
	case BreakerHalfOpen:
		return "half-open"
	}
	return "BreakerState(" + strconv.Itoa(int(s)) + ")"
}

// A verdict is what a call tells about Primary.
type verdict int

const (
	noVerdict verdict = iota // nothing: the call ended for another reason
	wasWell
	hasFailed
)

// A breaker decides whether Primary is asked. Its zero value is closed. It has
// no goroutine and no timer: what is due is done by the next call.
type breaker struct {
	phase atomic.Pointer[phase] // nil: closed from the start

	mu      sync.Mutex // for changes, which are rare
	changes []change   // made, and not told yet
	telling bool       // somebody is telling one
}

// A phase is the time from one change of state to the next. A call that was
// let through in a phase is judged in it, or not at all: that is why a result
// from before a change can't undo it.
type phase struct {
	state    BreakerState
	began    time.Time
	failures atomic.Int64  // closed: failures in a row
	cooldown time.Duration // open, half-open: the wait before the part that is by chance was taken off
	until    time.Time     // open: nobody probes before this
	overdue  atomic.Int64  // half-open: when the probe counts as lost, in ns from began; 0: there is no probe
	cause    error         // open, half-open: what opened it
}

// A breakerConfig has no field that is 0.
type breakerConfig struct {
	failures    int
	cooldown    time.Duration
	maxCooldown time.Duration
	probe       time.Duration // a probe that takes longer counts as lost, so that it can't keep others away for ever
	tell        func(from, to BreakerState, cause error)
}

var errProbeLost = errors.New("the probe has not come back")

func (b *breaker) current() *phase {
	if p := b.phase.Load(); p != nil {
		return p
	}
	b.phase.CompareAndSwap(nil, new(phase))
	return b.phase.Load()
}

// admit returns the current phase and whether the call shall ask Primary. If
// so, the call must be judged in that phase.
func (b *breaker) admit(c *breakerConfig) (*phase, bool) {
	p := b.current()
	if p.state == BreakerClosed {
		return p, true
	}
	now := time.Now()
	if p.state == BreakerOpen {
		if now.Before(p.until) {
			return p, false
		}
		next := &phase{state: BreakerHalfOpen, began: now, cooldown: p.cooldown, cause: p.cause}
		b.change(p, next, nil, c)
		if p = b.current(); p.state != BreakerHalfOpen {
			return p, p.state == BreakerClosed
		}
	}
	at := now.Sub(p.began).Nanoseconds()
	switch overdue := p.overdue.Load(); {
	case overdue == 0:
		return p, p.overdue.CompareAndSwap(0, max(at, 0)+int64(min(c.probe, math.MaxInt64/2)))
	case at > overdue:
		b.change(p, opened(p, errProbeLost, c), errProbeLost, c)
		b.announce(c)
	}
	return p, false
}

// judge takes in what a call tells that was let through in p, and tells
// whether that changed the state. If p has passed, it changes nothing.
func (b *breaker) judge(p *phase, v verdict, cause error, c *breakerConfig) (changed bool) {
	switch {
	case v == noVerdict && p.state == BreakerHalfOpen:
		p.overdue.Store(0) // the next call probes
		return false
	case v == wasWell && p.state == BreakerHalfOpen:
		return b.change(p, new(phase), nil, c)
	case v == hasFailed && (p.state == BreakerHalfOpen || p.failures.Add(1) >= int64(c.failures)):
		return b.change(p, opened(p, cause, c), cause, c)
	case v == wasWell && p.failures.Load() != 0: // most calls only read
		p.failures.Store(0)
	}
	return false
}

// opened is the open phase that follows p. Between half of the cooldown and
// all of it passes before the next probe, so that processes which lost the same
// server do not come back to it at once.
func opened(p *phase, cause error, c *breakerConfig) *phase {
	cooldown := c.cooldown
	if p.state == BreakerHalfOpen {
		cooldown = c.maxCooldown
		if p.cooldown < c.maxCooldown/2 {
			cooldown = p.cooldown * 2
		}
	}
	now := time.Now()
	return &phase{
		state:    BreakerOpen,
		began:    now,
		cooldown: cooldown,
		until:    now.Add(cooldown - rand.N(cooldown/2+1)),
		cause:    leftAlone(cause),
	}
}

// leftAlone is the error of the calls that do not ask. Its text is without the
// key of the call that failed, which was another's.
func leftAlone(cause error) error {
	//nolint:errorlint // what is wrapped around it may have more to say than its cause
	if e, ok := cause.(*callError); ok {
		cause = e.cause
	}
	return fmt.Errorf("ratelimit: fallback: Primary is left alone, it failed: %w", cause)
}

// change goes from one phase to the next, if nobody else has.
func (b *breaker) change(from, to *phase, cause error, c *breakerConfig) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.phase.CompareAndSwap(from, to) {
		return false
	}
	if c.tell != nil {
		b.changes = append(b.changes, change{from.state, to.state, cause})
	}
	return true
}
