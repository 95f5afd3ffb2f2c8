package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Fallback is a Limiter that asks Primary, and Secondary where Primary has no
// decision: an error, or no answer in time. The zero value of every other field
// is a good default. The fields must not change after the first call.
//
// # Time
//
// Primary is given Timeout, but at most half of the time that the context
// leaves, so that Secondary can still answer in time. Secondary gets the
// caller's context. Primary must heed its context, as Redis and Memory do: a
// call waits for it and is not cut off, which would take a goroutine.
//
// # Failures
//
// Every error of Primary's is a failure, those of a LimitFunc too, but for
// mistakes of the caller (ErrInvalidN, ErrInvalidKey, ErrInvalidLimit, a limiter
// that was not made) and the end of the caller's own context: those are
// returned as they are. If Secondary fails as well, the error wraps both. A call
// that Primary was asked for, and Secondary decided, may be charged by both.
//
// # Breaker
//
// After a number of failures in a row, over all keys and goroutines, Primary is
// left alone for a cooldown: no call waits for it. Then one call at a time
// probes it, and the others stay with Secondary. A decision closes the breaker,
// however long it took; a failure doubles the cooldown, up to MaxCooldown. Of
// each cooldown between half and all is waited, by chance, so that the
// processes that lost one server do not come back to it at the same time.
//
// Some calls tell nothing about Primary, and change nothing:
//   - one that was let through before the breaker's last change;
//   - one whose context ended, that panicked, or that ended its goroutine: if it
//     was the probe, the next call probes;
//   - one with too little time, less than a quarter of Timeout: else callers who
//     choose short deadlines could turn Primary off for everybody;
//   - a decision that asked nobody, by Unlimited or a Rate of 0;
//   - a Peek that succeeds, since Primary may well read and not write. A Peek may
//     probe, and if it fails, it has failed.
//
// A probe that has not come back after Timeout and MaxCooldown counts as failed.
type Fallback struct {
	// Primary is asked first. It is required.
	Primary Limiter

	// Secondary decides where Primary does not: FailOpen, FailClosed, a Memory
	// with a Share of the limit, another Redis. If it is nil, the error of
	// Primary is returned, and while Primary is left alone its last one.
	Secondary Limiter

	// Timeout is the longest that Primary is waited for; 0 means 50 ms.
	Timeout time.Duration

	// Failures is how many in a row open the breaker; 0 means 5.
	Failures int

	// Cooldown is how long Primary is left alone at first; 0 means 500 ms, or
	// MaxCooldown if that is less.
	Cooldown time.Duration

	// MaxCooldown is how long it is left alone at most, at least Cooldown; 0
	// means 5 s, or Cooldown if that is more.
	MaxCooldown time.Duration

	// OnFallback, if set, is told of each decision by Secondary, and of Primary's
	// error that was the cause. It runs on the caller's goroutine: be quick.
	OnFallback func(ctx context.Context, key string, cause error)

	// OnStateChange, if set, is told of each change of the breaker, and of the
	// failure if it opens. It is told of one change at a time, in their order, on
	// the goroutine of a call, maybe another than the one that made the change. It
	// may call this Fallback.
	OnStateChange func(from, to BreakerState, cause error)

	breaker breaker
}

// State is the breaker's state. It stays open after the cooldown until a call
// comes to probe Primary.
func (f *Fallback) State() BreakerState { return f.breaker.current().state }

// Allow is AllowN for one unit: see Limiter.
func (f *Fallback) Allow(ctx context.Context, key string) (Result, error) {
	return f.decide(ctx, question{key, 1, false})
}

// AllowN takes n units of key's limit, all of them or none: see Limiter.
func (f *Fallback) AllowN(ctx context.Context, key string, n int) (Result, error) {
	return f.decide(ctx, question{key, n, false})
}

// Peek tells what Allow would answer. It takes nothing and writes nothing.
func (f *Fallback) Peek(ctx context.Context, key string) (Result, error) {
	return f.decide(ctx, question{key, 1, true})
}

// Reset forgets what key has used, in Primary and in Secondary, whatever the
// breaker's state. The error wraps those of both.
func (f *Fallback) Reset(ctx context.Context, key string) error {
	if err := cmp.Or(f.check(), checkCall(ctx, fallbackName, key, 1)); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, primaryShare(ctx, f.config().timeout))
	defer cancel()
	err := f.Primary.Reset(short, key)
	if f.Secondary == nil {
		return err
	}
	return bothFailed(err, f.Secondary.Reset(ctx, key))
}

const fallbackName = "fallback" // in errors

// A question is what a Limiter is asked.
type question struct {
	key  string
	n    int
	peek bool
}

func (q question) put(ctx context.Context, l Limiter) (Result, error) {
	if q.peek {
		return l.Peek(ctx, q.key)
	}
	return l.AllowN(ctx, q.key, q.n)
}

func (f *Fallback) decide(ctx context.Context, q question) (Result, error) {
	if err := cmp.Or(f.check(), checkCall(ctx, fallbackName, q.key, q.n)); err != nil {
		return Result{}, err
	}
	c := f.config()
	p, asks := f.breaker.admit(&c.breakerConfig)
	cause := p.cause
	if asks {
		result, err := f.ask(ctx, q, p, &c)
		if err == nil || isMistake(err) {
			return result, err
		}
		if ended := ctx.Err(); ended != nil {
			return Result{}, withEnd(ended, err)
		}
		cause = err
	}
	if f.Secondary == nil {
		return Result{}, cause
	}
	result, err := q.put(ctx, f.Secondary)
	if err != nil {
		if isMistake(err) || ctx.Err() != nil {
			return Result{}, err
		}
		return Result{}, bothFailed(cause, err)
	}
	result.Fallback = true
	if f.OnFallback != nil {
		f.OnFallback(ctx, q.key, cause)
	}
	return result, nil
}

// ask asks Primary for a call that was admitted in phase p.
func (f *Fallback) ask(ctx context.Context, q question, p *phase, c *fallbackConfig) (result Result, err error) {
	v := noVerdict // unless Primary comes back
	defer func() {
		if f.breaker.judge(p, v, err, &c.breakerConfig) {
			f.breaker.announce(&c.breakerConfig)
		}
	}()
	if p.state == BreakerHalfOpen {
		f.breaker.announce(&c.breakerConfig)
	}
	share := primaryShare(ctx, c.timeout)
	short, cancel := context.WithTimeoutCause(ctx, share, errTimeout)
	defer cancel()
	result, err = q.put(short, f.Primary)
	switch {
	case err == nil:
		if _, _, fixed := result.Limit.fixed(1); !q.peek && (!fixed || result.Limit == Limit{}) {
			v = wasWell
		}
	case isMistake(err):
	case errors.Is(context.Cause(short), errTimeout): // also if the caller's context has ended since
		if share >= c.timeout/4 {
			v = hasFailed
		}
	case ctx.Err() == nil:
		v = hasFailed
	}
	return result, err
}

// errTimeout tells the end of Primary's time from that of the caller's.
var errTimeout = errors.New("ratelimit: fallback: Primary took too long")

// primaryShare is the part of ctx's time that Primary gets.
func primaryShare(ctx context.Context, timeout time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(timeout, time.Until(deadline)/2)
	}
	return timeout
}

// withEnd makes sure that a call whose context has ended says so.
func withEnd(ended, err error) error {
	if errors.Is(err, ended) {
		return err
	}
	return fmt.Errorf("%w: %w", ended, err)
}

func bothFailed(primary, secondary error) error {
	if primary == nil || secondary == nil {
		return cmp.Or(primary, secondary)
	}
	return fmt.Errorf("%w; Secondary: %w", primary, secondary)
}
