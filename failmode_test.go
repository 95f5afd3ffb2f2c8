package ratelimit

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFailModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[FailMode]Result{
		FailOpen:   {Allowed: true, Limit: Unlimited, Remaining: math.MaxInt},
		FailClosed: {Limit: Per(0, time.Second), RetryAfter: time.Second},
	} {
		var l Limiter = mode
		for _, n := range []int{1, 1000, math.MaxInt} {
			r, err := l.AllowN(t.Context(), "key", n)
			require.NoError(t, err)
			require.Equal(t, want, r)
		}
		r, err := l.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, want, r)
		r, err = l.Peek(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, want, r)
		require.NoError(t, l.Reset(t.Context(), "key"))
		requireBadCalls(t, l)
	}
}

// requireBadCalls: a call that is wrong gets an error whatever else is the matter.
func requireBadCalls(t *testing.T, l Limiter) {
	t.Helper()
	for _, n := range []int{0, -1, math.MinInt} {
		r, err := l.AllowN(t.Context(), "key", n)
		require.ErrorIs(t, err, ErrInvalidN)
		require.Zero(t, r)
	}
	_, err := l.Allow(t.Context(), "")
	require.ErrorIs(t, err, ErrInvalidKey)
	_, err = l.Peek(t.Context(), "")
	require.ErrorIs(t, err, ErrInvalidKey)
	require.ErrorIs(t, l.Reset(t.Context(), ""), ErrInvalidKey)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancelLate()
	for _, ctx := range []context.Context{cancelled, late} {
		r, err := l.Allow(ctx, "key")
		require.ErrorIs(t, err, ctx.Err())
		require.Zero(t, r)
		_, err = l.Peek(ctx, "key")
		require.ErrorIs(t, err, ctx.Err())
		require.ErrorIs(t, l.Reset(ctx, "key"), ctx.Err())
	}
}

func TestFailModeThatIsNone(t *testing.T) {
	t.Parallel()
	for _, mode := range []FailMode{"", "open"} {
		_, err := mode.Allow(t.Context(), "key")
		require.ErrorContains(t, err, `no FailMode "`+string(mode)+`"`)
		_, err = mode.Peek(t.Context(), "key")
		require.Error(t, err)
		require.Error(t, mode.Reset(t.Context(), "key"))
	}
}
