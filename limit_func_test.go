package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A limitFuncCall is one of the calls that ask for a limit.
type limitFuncCall struct {
	name string
	do   func(ctx context.Context, b Base, r Reservation) error
}

var limitFuncCalls = []limitFuncCall{
	{"Allow", func(ctx context.Context, b Base, _ Reservation) error { _, err := b.Allow(ctx, "key"); return err }},
	{"AllowN", func(ctx context.Context, b Base, _ Reservation) error { _, err := b.AllowN(ctx, "key", 2); return err }},
	{"Peek", func(ctx context.Context, b Base, _ Reservation) error { _, err := b.Peek(ctx, "key"); return err }},
	{"AllowUpTo", func(ctx context.Context, b Base, _ Reservation) error {
		_, _, err := b.AllowUpTo(ctx, "key", 2)
		return err
	}},
	{"Charge", func(ctx context.Context, b Base, _ Reservation) error { _, err := b.Charge(ctx, "key", 2); return err }},
	{"Refund", func(ctx context.Context, b Base, _ Reservation) error { _, err := b.Refund(ctx, "key", 2); return err }},
	{"Reserve", func(ctx context.Context, b Base, _ Reservation) error {
		_, _, err := b.Reserve(ctx, "key", 2)
		return err
	}},
	{"Settle", func(ctx context.Context, b Base, r Reservation) error { _, err := b.Settle(ctx, r, 0); return err }},
	{"AllowAll", func(ctx context.Context, b Base, _ Reservation) error {
		_, _, err := AllowAll(ctx, Request{b, "other", 1}, Request{b, "key", 2})
		return err
	}},
	{"All", func(ctx context.Context, b Base, _ Reservation) error {
		all, err := All(b)
		if err == nil {
			_, err = all.Allow(ctx, "key")
		}
		return err
	}},
	{"AllowEach", func(ctx context.Context, b Base, _ Reservation) error {
		return AllowEach(ctx, Request{b, "key", 2})[0].Err
	}},
}

// limitFuncs runs f for each call, for all algorithms, in Redis and in memory. The
// limiter's LimitFunc is what f sets; 4 of 10 units are reserved. After f the state
// must be as it was, and the reservation open.
func limitFuncs(t *testing.T, f func(t *testing.T, c limitFuncCall, b Base, r Reservation, set func(LimitFunc))) {
	t.Helper()
	eachBase(t, func(t *testing.T, base func(Algorithm, Limits) Base) {
		for _, a := range allAlgorithms {
			good := LimitFunc(func(context.Context, string) (Limit, error) { return PerHour(10).WithBurst(10), nil })
			asked := good
			b := base(a, LimitFunc(func(ctx context.Context, key string) (Limit, error) {
				if key != "key" {
					return PerHour(10), nil
				}
				return asked(ctx, key)
			}))
			for _, c := range limitFuncCalls {
				require.NoError(t, b.Reset(t.Context(), "key"))
				r, _, err := b.Reserve(t.Context(), "key", 4)
				require.NoError(t, err)
				f(t, c, b, r, func(f LimitFunc) { asked = f })
				asked = good
				requireFree(t, b)
				requireRemaining(t, 6, b, "key")
				requireRemaining(t, PerHour(10).capacity(a), b, "other")
				_, err = b.Settle(t.Context(), r, 0)
				require.NoError(t, err, "%s %s", a, c.name)
				requireRemaining(t, 10, b, "key")
			}
		}
	})
}

// requireFree requires that a limiter has no lock and no slot that a call kept.
func requireFree(t *testing.T, b Base) {
	t.Helper()
	switch b := b.(type) {
	case *Memory:
		require.True(t, b.mu.TryLock(), "the lock was kept")
		b.mu.Unlock()
	case *Redis:
		eventually(t, time.Second, func(context.Context) error { // the flight has landed, its goroutine is about to end
			if n := inClient(b); n > 0 {
				return fmt.Errorf("%d slots were kept", n)
			}
			return nil
		})
	}
}

// What a LimitFunc says instead of a limit is the call's error, and it takes nothing.
func TestLimitFuncThatFails(t *testing.T) {
	t.Parallel()
	cause := errors.New("the plans are away")
	limitFuncs(t, func(t *testing.T, c limitFuncCall, b Base, r Reservation, set func(LimitFunc)) {
		set(func(context.Context, string) (Limit, error) { return PerHour(10), cause })
		err := c.do(t.Context(), b, r)
		require.ErrorIs(t, err, cause, c.name)
		require.ErrorContains(t, err, `key "key": the plans are away`, c.name)
		set(func(context.Context, string) (Limit, error) { return Per(-1, time.Second), nil })
		require.ErrorIs(t, c.do(t.Context(), b, r), ErrInvalidLimit, c.name)
	})
}

// A slow LimitFunc gets the call's context, and a call whose time it has used up
// takes nothing, whether it then says so or not.
func TestLimitFuncThatIsSlow(t *testing.T) {
	t.Parallel()
	limitFuncs(t, func(t *testing.T, c limitFuncCall, b Base, r Reservation, set func(LimitFunc)) {
		for _, says := range []func(context.Context) error{context.Context.Err, func(context.Context) error { return nil }} {
			set(func(ctx context.Context, _ string) (Limit, error) {
				<-ctx.Done()
				return PerHour(10).WithBurst(10), says(ctx)
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			began := time.Now()
			err := c.do(ctx, b, r)
			took := time.Since(began)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, c.name)
			require.Less(t, took, 5*time.Second)
		}
	})
}

// A panic of a LimitFunc is the caller's, who may recover: nothing is taken, and no
// lock or slot is kept.
func TestLimitFuncThatPanics(t *testing.T) {
	t.Parallel()
	limitFuncs(t, func(t *testing.T, c limitFuncCall, b Base, r Reservation, set func(LimitFunc)) {
		set(func(context.Context, string) (Limit, error) { panic("no plans") })
		require.PanicsWithValue(t, "no plans", func() { _ = c.do(t.Context(), b, r) }, c.name)
	})
}

// A LimitFunc may itself ask the limiter, as for a limit that depends on another.
func TestLimitFuncThatAsksTheLimiter(t *testing.T) {
	t.Parallel()
	limitFuncs(t, func(t *testing.T, c limitFuncCall, b Base, r Reservation, set func(LimitFunc)) {
		denied := errors.New("denied")
		set(func(ctx context.Context, _ string) (Limit, error) {
			requireFree(t, b)
			if _, err := b.Peek(ctx, "other"); err != nil {
				return Limit{}, err
			}
			return Limit{}, denied
		})
		require.ErrorIs(t, c.do(t.Context(), b, r), denied, c.name)
	})
}
