package ratelimit

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A step is one call in a table, and what it must answer.
type step struct {
	pass      time.Duration // before the call
	limit     Limit         // from now on, if not zero
	peek      bool
	reset     bool // before the call
	n         int  // 0: 1
	allowed   bool
	remaining int
	retry     time.Duration
	resets    time.Duration
}

func runSteps(t *testing.T, s *subject, steps []step) {
	t.Helper()
	const key = "key"
	for i, step := range steps {
		if step.pass != 0 {
			s.pass(step.pass)
		}
		if (step.limit != Limit{}) {
			*s.limit = step.limit
		}
		if step.reset {
			require.NoError(t, s.Reset(t.Context(), key))
		}
		var got Result
		var err error
		if step.peek {
			got, err = s.Peek(t.Context(), key)
		} else {
			got, err = s.AllowN(t.Context(), key, max(step.n, 1))
		}
		require.NoError(t, err)
		want := Result{step.allowed, *s.limit, step.remaining, step.retry, step.resets, false}
		if drift := s.drift(); drift > 0 {
			got.RetryAfter = undrifted(got.RetryAfter, want.RetryAfter, drift)
			got.ResetAfter = undrifted(got.ResetAfter, want.ResetAfter, drift)
		}
		require.Equal(t, want, got, "step %d: %+v", i, step)
	}
}

// undrifted is want, if got is want less what may have passed by itself.
func undrifted(got, want, drift time.Duration) time.Duration {
	if got <= want && got >= want-drift && got > 0 {
		return want
	}
	return got
}

const (
	us  = time.Microsecond
	ms  = time.Millisecond
	sec = time.Second
)

// By hand, with 10 units per 10 s unless the limit is changed.
var stepTables = map[Algorithm][]step{
	TokenBucket: {
		{peek: true, allowed: true, remaining: 10},
		{allowed: true, remaining: 9, resets: 1 * sec},
		{n: 4, allowed: true, remaining: 5, resets: 5 * sec},
		{n: 5, allowed: true, remaining: 0, resets: 10 * sec},
		{retry: 1 * sec, resets: 10 * sec},
		{peek: true, retry: 1 * sec, resets: 10 * sec},
		{n: 10, retry: 10 * sec, resets: 10 * sec},
		{n: 11, retry: Never, resets: 10 * sec},
		{n: math.MaxInt, retry: Never, resets: 10 * sec},
		// partial recovery
		{pass: 500 * ms, retry: 500 * ms, resets: 9500 * ms},
		{pass: 500*ms - us, retry: us, resets: 9*sec + us},
		{pass: us, allowed: true, remaining: 0, resets: 10 * sec},
		{pass: 3250 * ms, n: 2, allowed: true, remaining: 1, resets: 8750 * ms},
		{n: 2, remaining: 1, retry: 750 * ms, resets: 8750 * ms},
		// full recovery, idle, n equal to capacity
		{pass: 8750 * ms, peek: true, allowed: true, remaining: 10},
		{pass: time.Hour, n: 10, allowed: true, remaining: 0, resets: 10 * sec},
		{reset: true, peek: true, allowed: true, remaining: 10},
		// rate, period and burst change
		{n: 10, allowed: true, remaining: 0, resets: 10 * sec},
		{pass: 1 * sec, limit: Per(20, 10*sec).WithBurst(10), allowed: true, remaining: 1, resets: 4500 * ms},
		{limit: Per(20, 20*sec).WithBurst(10), allowed: true, remaining: 0, resets: 10 * sec},
		{pass: 5 * sec, limit: Per(20, 20*sec).WithBurst(20), peek: true, allowed: true, remaining: 5, resets: 15 * sec},
		{limit: Per(20, 20*sec).WithBurst(3), peek: true, allowed: true, remaining: 3},
		{n: 3, allowed: true, remaining: 0, resets: 3 * sec},
		{n: 4, retry: Never, resets: 3 * sec},
		// blocked, unlimited, and back
		{limit: Per(0, sec), retry: Never},
		{limit: Unlimited, n: 1000, allowed: true, remaining: math.MaxInt},
		{limit: Per(10, 10*sec), retry: 1 * sec, resets: 10 * sec},
	},
	LeakyBucket: {
		{peek: true, allowed: true, remaining: 1},
		{allowed: true, remaining: 0, resets: 1 * sec},
		{retry: 1 * sec, resets: 1 * sec},
		{n: 2, retry: Never, resets: 1 * sec},
		{pass: 1*sec - us, retry: us, resets: us},
		{pass: us, allowed: true, remaining: 0, resets: 1 * sec},
		{reset: true, limit: Per(10, 10*sec).WithBurst(4), peek: true, allowed: true, remaining: 4},
		{allowed: true, remaining: 3, resets: 1 * sec},
		{n: 3, allowed: true, remaining: 0, resets: 4 * sec},
		{retry: 1 * sec, resets: 4 * sec},
		{peek: true, retry: 1 * sec, resets: 4 * sec},
		{n: 4, retry: 4 * sec, resets: 4 * sec},
		{n: 5, retry: Never, resets: 4 * sec},
		// partial recovery
		{pass: 1500 * ms, n: 2, remaining: 1, retry: 500 * ms, resets: 2500 * ms},
		{pass: 500 * ms, n: 2, allowed: true, remaining: 0, resets: 4 * sec},
		// full recovery, n equal to capacity, idle
		{pass: 4 * sec, peek: true, allowed: true, remaining: 4},
		{n: 4, allowed: true, remaining: 0, resets: 4 * sec},
		{pass: time.Hour, n: 4, allowed: true, remaining: 0, resets: 4 * sec},
		// rate, period and burst change
		{pass: 1 * sec, limit: Per(20, 10*sec).WithBurst(4), allowed: true, remaining: 1, resets: 1500 * ms},
		{limit: Per(20, 20*sec).WithBurst(4), allowed: true, remaining: 0, resets: 4 * sec},
		{limit: Per(20, 20*sec).WithBurst(6), n: 2, allowed: true, remaining: 0, resets: 6 * sec},
		{limit: Per(20, 20*sec).WithBurst(2), retry: 1 * sec, resets: 2 * sec},
		{pass: 1 * sec, allowed: true, remaining: 0, resets: 2 * sec},
		// blocked, unlimited, and back
		{limit: Per(0, sec), retry: Never},
		{limit: Unlimited, n: 1000, allowed: true, remaining: math.MaxInt},
		{limit: Per(20, 20*sec).WithBurst(2), retry: 1 * sec, resets: 2 * sec},
	},
	FixedWindow: {
		{peek: true, allowed: true, remaining: 10},
		{allowed: true, remaining: 9, resets: 10 * sec},
		{pass: 4 * sec, n: 4, allowed: true, remaining: 5, resets: 6 * sec},
		{n: 5, allowed: true, remaining: 0, resets: 6 * sec},
		{retry: 6 * sec, resets: 6 * sec},
		{peek: true, retry: 6 * sec, resets: 6 * sec},
		{n: 10, retry: 6 * sec, resets: 6 * sec},
		{n: 11, retry: Never, resets: 6 * sec},
		// nothing comes back before all does
		{pass: 5 * sec, retry: 1 * sec, resets: 1 * sec},
		{pass: 1 * sec, n: 10, allowed: true, remaining: 0, resets: 10 * sec},
		{pass: 10 * sec, peek: true, allowed: true, remaining: 10},
		{pass: time.Hour, n: 2, allowed: true, remaining: 8, resets: 10 * sec},
		{n: 9, remaining: 8, retry: 10 * sec, resets: 10 * sec},
		{reset: true, peek: true, allowed: true, remaining: 10},
		// rate, period and burst change
		{n: 10, allowed: true, remaining: 0, resets: 10 * sec},
		{limit: Per(15, 10*sec), n: 5, allowed: true, remaining: 0, resets: 10 * sec},
		{limit: Per(5, 10*sec), peek: true, retry: 10 * sec, resets: 10 * sec},
		{limit: Per(15, 4*sec), peek: true, retry: 4 * sec, resets: 4 * sec},
		{retry: 4 * sec, resets: 4 * sec},
		{limit: Per(15, 20*sec), retry: 4 * sec, resets: 4 * sec},
		{pass: 4 * sec, allowed: true, remaining: 14, resets: 20 * sec},
		{limit: Per(15, 20*sec).WithBurst(3), n: 14, allowed: true, remaining: 0, resets: 20 * sec},
		// blocked, unlimited, and back
		{limit: Per(0, sec), retry: Never},
		{limit: Unlimited, n: 1000, allowed: true, remaining: math.MaxInt},
		{limit: Per(15, 20*sec), retry: 20 * sec, resets: 20 * sec},
	},
	SlidingWindowLog: {
		{peek: true, allowed: true, remaining: 10},
		{allowed: true, remaining: 9, resets: 10 * sec},
		{pass: 4 * sec, n: 4, allowed: true, remaining: 5, resets: 10 * sec},
		{n: 5, allowed: true, remaining: 0, resets: 10 * sec},
		{retry: 6 * sec, resets: 10 * sec},
		{n: 2, retry: 10 * sec, resets: 10 * sec},
		{n: 10, retry: 10 * sec, resets: 10 * sec},
		{n: 11, retry: Never, resets: 10 * sec},
		{peek: true, retry: 6 * sec, resets: 10 * sec},
		// partial recovery
		{pass: 6*sec - us, retry: us, resets: 4*sec + us},
		{pass: us, allowed: true, remaining: 0, resets: 10 * sec},
		{pass: 4 * sec, n: 3, allowed: true, remaining: 6, resets: 10 * sec},
		// full recovery, idle, n equal to capacity
		{pass: 10 * sec, peek: true, allowed: true, remaining: 10},
		{pass: time.Hour, n: 10, allowed: true, remaining: 0, resets: 10 * sec},
		{reset: true, peek: true, allowed: true, remaining: 10},
		// rate, period and burst change
		{n: 6, allowed: true, remaining: 4, resets: 10 * sec},
		{limit: Per(12, 10*sec), n: 6, allowed: true, remaining: 0, resets: 10 * sec},
		{limit: Per(6, 10*sec), retry: 10 * sec, resets: 10 * sec},
		{pass: 3 * sec, limit: Per(12, 2*sec), peek: true, allowed: true, remaining: 12},
		{allowed: true, remaining: 11, resets: 2 * sec},
		{limit: Per(12, 20*sec), peek: true, allowed: true, remaining: 11, resets: 20 * sec},
		{limit: Per(12, 20*sec).WithBurst(3), n: 11, allowed: true, remaining: 0, resets: 20 * sec},
		// blocked, unlimited, and back
		{limit: Per(0, sec), retry: Never},
		{limit: Unlimited, n: 1000, allowed: true, remaining: math.MaxInt},
		{limit: Per(12, 20*sec), retry: 20 * sec, resets: 20 * sec},
	},
	SlidingWindowCounter: {
		{peek: true, allowed: true, remaining: 10},
		{allowed: true, remaining: 9, resets: 10*sec + us},
		{pass: 5 * sec, n: 9, allowed: true, remaining: 0, resets: 14*sec + us},
		{retry: 5*sec + us, resets: 14*sec + us},
		{peek: true, retry: 5*sec + us, resets: 14*sec + us},
		{n: 10, retry: 14*sec + us, resets: 14*sec + us},
		{n: 11, retry: Never, resets: 14*sec + us},
		// the next window, with all of the one before
		{pass: 5 * sec, retry: us, resets: 9*sec + us},
		{pass: us, allowed: true, remaining: 0, resets: 10 * sec},
		// half of it
		{pass: 5*sec - us, n: 3, allowed: true, remaining: 1, resets: 12500*ms + us},
		{n: 2, remaining: 1, retry: us, resets: 12500*ms + us},
		// full recovery, idle, n equal to capacity
		{pass: 12500*ms + us, peek: true, allowed: true, remaining: 10},
		{pass: time.Hour, n: 10, allowed: true, remaining: 0, resets: 19*sec + us},
		{reset: true, peek: true, allowed: true, remaining: 10},
		// rate, period and burst change
		{n: 8, allowed: true, remaining: 2, resets: 18750*ms + us},
		{limit: Per(12, 10*sec), n: 4, allowed: true, remaining: 0, resets: 19166667 * us},
		{limit: Per(6, 10*sec), retry: 15*sec + us, resets: 19166667 * us},
		{pass: 3 * sec, limit: Per(12, 2*sec), peek: true, allowed: true, remaining: 6, resets: 833334 * us},
		{limit: Per(12, 20*sec), peek: true, retry: 17*sec + us, resets: 35333334 * us},
		{limit: Per(12, 20*sec).WithBurst(3), peek: true, retry: 17*sec + us, resets: 35333334 * us},
		// blocked, unlimited, and back
		{limit: Per(0, sec), retry: Never},
		{limit: Unlimited, n: 1000, allowed: true, remaining: math.MaxInt},
		{limit: Per(12, 20*sec), retry: 17*sec + us, resets: 35333334 * us},
	},
}

func TestSteps(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, s *subject) {
		require.NotEmpty(t, stepTables[s.algorithm])
		runSteps(t, s, stepTables[s.algorithm])
	})
}
