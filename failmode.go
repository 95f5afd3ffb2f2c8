package ratelimit

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// A FailMode is a Limiter that gives every key the same answer and keeps
// nothing: what a Fallback's Secondary can be if there is nothing to count
// with. A call that is wrong, or whose context has ended, gets its error all
// the same.
type FailMode string

const (
	// FailOpen allows every call, with the Limit Unlimited: for limits that
	// protect from too much of a good thing.
	FailOpen FailMode = "fail open"

	// FailClosed refuses every call, with a RetryAfter of a second and the Limit
	// Per(0, time.Second): for limits on what costs money, or on guesses at a
	// password.
	FailClosed FailMode = "fail closed"
)

// Allow is AllowN for one unit: see Limiter.
func (m FailMode) Allow(ctx context.Context, key string) (Result, error) {
	return m.AllowN(ctx, key, 1)
}

// AllowN allows, or refuses, any n of at least 1: see Limiter.
func (m FailMode) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if err := m.check(ctx, key, n); err != nil {
		return Result{}, err
	}
	if m == FailOpen {
		return Result{Allowed: true, Limit: Unlimited, Remaining: unlimited}, nil
	}
	return Result{Limit: Per(0, time.Second), RetryAfter: time.Second}, nil
}

// Peek tells what Allow would answer.
func (m FailMode) Peek(ctx context.Context, key string) (Result, error) {
	return m.AllowN(ctx, key, 1)
}

// Reset has nothing to forget.
func (m FailMode) Reset(ctx context.Context, key string) error { return m.check(ctx, key, 1) }

func (m FailMode) check(ctx context.Context, key string, n int) error {
	if m != FailOpen && m != FailClosed {
		return misuseError("there is no FailMode " + strconv.Quote(string(m)))
	}
	return checkCall(ctx, string(m), key, n)
}

// checkCall checks what every call must keep to; name is who says so.
func checkCall(ctx context.Context, name, key string, n int) error {
	err := ctx.Err()
	if err == nil {
		err = checkKey(key)
	}
	if err == nil && n < 1 {
		err = fmt.Errorf("%w: it is %d, it must be at least 1", ErrInvalidN, n)
	}
	if err != nil {
		return &callError{Algorithm(name), key, err}
	}
	return nil
}
