package ratelimit

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// baseContract runs f for all algorithms, in Redis and in memory, with a burst of
// 10 that takes 10 s to come back.
func baseContract(t *testing.T, f func(t *testing.T, s *subject, b Base)) {
	t.Helper()
	contract(t, func(t *testing.T, s *subject) {
		*s.limit = Per(10, 10*time.Second).WithBurst(10)
		f(t, s, s.Limiter.(Base))
	})
}

func requireRemaining(t *testing.T, want int, l Limiter, key string) Result {
	t.Helper()
	r, err := l.Peek(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, want, r.Remaining)
	return r
}

func TestAllowUpTo(t *testing.T) {
	t.Parallel()
	baseContract(t, func(t *testing.T, s *subject, b Base) {
		for _, step := range []struct{ n, granted, left int }{{4, 4, 6}, {1, 1, 5}, {8, 5, 0}} {
			n, r, err := b.AllowUpTo(t.Context(), "key", step.n)
			require.NoError(t, err)
			require.Equal(t, step.granted, n)
			require.True(t, r.Allowed)
			require.Zero(t, r.RetryAfter)
			require.Equal(t, step.left, r.Remaining)
		}
		n, r, err := b.AllowUpTo(t.Context(), "key", 7)
		require.NoError(t, err)
		require.Zero(t, n)
		require.False(t, r.Allowed)
		one := requireRemaining(t, 0, b, "key")
		require.InDelta(t, one.RetryAfter, r.RetryAfter, float64(s.drift()), "the wait is that for one unit")

		n, _, err = b.AllowUpTo(t.Context(), "other", math.MaxInt)
		require.NoError(t, err)
		require.Equal(t, 10, n, "more than there ever is")

		*s.limit = Unlimited
		n, r, err = b.AllowUpTo(t.Context(), "key", 1000)
		require.NoError(t, err)
		require.Equal(t, 1000, n)
		require.True(t, r.Allowed)
		*s.limit = Per(0, time.Second)
		n, r, err = b.AllowUpTo(t.Context(), "key", 1000)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, Never, r.RetryAfter)
	})
}

func TestChargeAndRefund(t *testing.T) {
	t.Parallel()
	baseContract(t, func(t *testing.T, s *subject, b Base) {
		r, err := b.Charge(t.Context(), "key", 7)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Equal(t, 3, r.Remaining)

		r, err = b.Charge(t.Context(), "key", 5) // a debt of 2
		require.NoError(t, err)
		require.False(t, r.Allowed)
		require.Zero(t, r.Remaining)
		peeked := requireRemaining(t, 0, b, "key")
		require.InDelta(t, peeked.RetryAfter, r.RetryAfter, float64(s.drift()), "the Result is what Peek answers")
		require.InDelta(t, peeked.ResetAfter, r.ResetAfter, float64(s.drift()))
		switch s.algorithm {
		case TokenBucket, LeakyBucket:
			require.Equal(t, 3*time.Second, r.RetryAfter)
		case FixedWindow, SlidingWindowLog:
			require.InDelta(t, 10*time.Second, r.RetryAfter, float64(s.drift()))
		case SlidingWindowCounter: // until 9 of 12 are left in the next window
			require.Greater(t, r.RetryAfter, 10*time.Second)
		}

		r, err = b.Refund(t.Context(), "key", 4)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Equal(t, 2, r.Remaining)
		r, err = b.Refund(t.Context(), "key", 100)
		require.NoError(t, err)
		require.Equal(t, Result{Allowed: true, Limit: *s.limit, Remaining: 10}, r, "never above what the limit allows")
		r, err = b.Refund(t.Context(), "unused", 1)
		require.NoError(t, err)
		require.Equal(t, Result{Allowed: true, Limit: *s.limit, Remaining: 10}, r)
	})
}

// However much is charged, the debt is one capacity.
func TestDebtIsBounded(t *testing.T) {
	t.Parallel()
	baseContract(t, func(t *testing.T, s *subject, b Base) {
		for _, n := range []int{9, 1000, math.MaxInt, 1} {
			_, err := b.Charge(t.Context(), "key", n)
			require.NoError(t, err)
		}
		r := requireRemaining(t, 0, b, "key")
		require.LessOrEqual(t, r.RetryAfter, 20*time.Second)
		require.LessOrEqual(t, r.ResetAfter, 20*time.Second)
		s.pass(r.RetryAfter)
		r, err := b.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.True(t, r.Allowed)

		_, err = b.Charge(t.Context(), "key", 1000)
		require.NoError(t, err)
		_, err = b.Refund(t.Context(), "key", 1000)
		require.NoError(t, err)
		requireRemaining(t, 10, b, "key")
	})
}

func TestReserveAndSettle(t *testing.T) {
	t.Parallel()
	baseContract(t, func(t *testing.T, _ *subject, b Base) {
		reservation, r, err := b.Reserve(t.Context(), "key", 8)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Equal(t, 2, r.Remaining)
		require.Equal(t, 8, reservation.N)
		refused, r, err := b.Reserve(t.Context(), "key", 3)
		require.NoError(t, err)
		require.False(t, r.Allowed)
		require.Positive(t, r.RetryAfter)
		require.Zero(t, refused)

		// It can be sent to where it is settled.
		text, err := json.Marshal(reservation)
		require.NoError(t, err)
		var sent Reservation
		require.NoError(t, json.Unmarshal(text, &sent))
		require.Equal(t, reservation, sent)
		r, err = b.Settle(t.Context(), sent, 3)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Equal(t, 7, r.Remaining)
		for range 2 {
			_, err = b.Settle(t.Context(), reservation, 0)
			require.ErrorIs(t, err, ErrSettled)
			require.ErrorContains(t, err, `key "key"`)
		}
		requireRemaining(t, 7, b, "key")

		// More was used, and that is a debt.
		reservation, _, err = b.Reserve(t.Context(), "key", 2)
		require.NoError(t, err)
		r, err = b.Settle(t.Context(), reservation, 9)
		require.NoError(t, err)
		require.False(t, r.Allowed)
		require.Positive(t, r.RetryAfter)
		_, err = b.Refund(t.Context(), "key", 2)
		require.NoError(t, err)
		requireRemaining(t, 0, b, "key")

		// Cancelled, exact, of another key, never made.
		require.NoError(t, b.Reset(t.Context(), "key"))
		reservation, _, err = b.Reserve(t.Context(), "key", 4)
		require.NoError(t, err)
		other := reservation
		other.Key = "other"
		_, err = b.Settle(t.Context(), other, 0)
		require.ErrorIs(t, err, ErrSettled)
		_, err = b.Settle(t.Context(), reservation, 0)
		require.NoError(t, err)
		requireRemaining(t, 10, b, "key")
		_, err = b.Settle(t.Context(), Reservation{Key: "key", N: 4, ID: "made up"}, 0)
		require.ErrorIs(t, err, ErrSettled)
		_, err = b.Settle(t.Context(), Reservation{}, 0)
		require.ErrorIs(t, err, ErrInvalidKey)
	})
}

// What has come back by itself is not given back a second time. For the scripts
// see TestReservationsEqualTwins.
func TestSettleTooLate(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { settleTooLate(t, memorySubject(t, a)) })
		})
	}
}

func settleTooLate(t *testing.T, s *subject) {
	t.Helper()
	b := s.Limiter.(Base)
	*s.limit = Per(10, 10*time.Second).WithBurst(10)
	reservation, r, err := b.Reserve(t.Context(), "key", 5)
	require.NoError(t, err)
	s.pass(r.ResetAfter + 10*time.Millisecond) // a key lives a ms longer than it counts
	_, err = b.AllowN(t.Context(), "key", 6)
	require.NoError(t, err)
	_, err = b.Settle(t.Context(), reservation, 0)
	require.NoError(t, err, "it is settled, and nothing given back")
	requireRemaining(t, 4, b, "key")
	_, err = b.Settle(t.Context(), reservation, 0)
	require.ErrorIs(t, err, ErrSettled)

	// A Reset makes units available again as well.
	reservation, _, err = b.Reserve(t.Context(), "key", 3)
	require.NoError(t, err)
	require.NoError(t, b.Reset(t.Context(), "key"))
	s.pass(5 * time.Second)
	_, err = b.AllowN(t.Context(), "key", 6)
	require.NoError(t, err)
	_, err = b.Settle(t.Context(), reservation, 0)
	require.NoError(t, err)
	if s.algorithm != SlidingWindowCounter { // in whose window it lies
		requireRemaining(t, 4, b, "key")
	}
}

func TestReservationOfUnlimited(t *testing.T) {
	t.Parallel()
	baseContract(t, func(t *testing.T, s *subject, b Base) {
		limited := *s.limit
		*s.limit = Unlimited
		reservation, r, err := b.Reserve(t.Context(), "key", 5)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		_, err = b.Settle(t.Context(), reservation, 50)
		require.NoError(t, err)
		*s.limit = limited
		_, err = b.Settle(t.Context(), reservation, 50)
		require.NoError(t, err)
		requireRemaining(t, 10, b, "key")

		*s.limit = Per(0, time.Second)
		reservation, r, err = b.Reserve(t.Context(), "key", 5)
		require.NoError(t, err)
		require.Zero(t, reservation)
		require.Equal(t, Never, r.RetryAfter)
	})
}

func TestBaseOfBadInput(t *testing.T) {
	t.Parallel()
	baseContract(t, func(t *testing.T, s *subject, b Base) {
		calls := func(ctx context.Context, key string, n int) []error {
			_, _, upTo := b.AllowUpTo(ctx, key, n)
			_, charge := b.Charge(ctx, key, n)
			_, refund := b.Refund(ctx, key, n)
			_, _, reserve := b.Reserve(ctx, key, n)
			_, _, all := AllowAll(ctx, Request{Limiter: b, Key: key, N: n})
			return []error{upTo, charge, refund, reserve, all, AllowEach(ctx, Request{Limiter: b, Key: key, N: n})[0].Err}
		}
		for _, n := range []int{0, -1, math.MinInt} {
			for _, err := range calls(t.Context(), "key", n) {
				require.ErrorIs(t, err, ErrInvalidN)
			}
		}
		for _, err := range calls(t.Context(), "", 1) {
			require.ErrorIs(t, err, ErrInvalidKey)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range calls(over, "key", 1) {
			require.ErrorIs(t, err, context.Canceled)
		}
		reservation, _, err := b.Reserve(t.Context(), "key", 1)
		require.NoError(t, err)
		_, err = b.Settle(t.Context(), reservation, -1)
		require.ErrorIs(t, err, ErrInvalidN)
		_, err = b.Settle(over, reservation, 0)
		require.ErrorIs(t, err, context.Canceled)
		valid := *s.limit
		*s.limit = Limit{}
		_, err = b.Settle(t.Context(), reservation, 0)
		require.ErrorIs(t, err, ErrInvalidLimit)
		for _, err := range calls(t.Context(), "key", 1) {
			require.ErrorIs(t, err, ErrInvalidLimit)
		}
		*s.limit = valid
		_, err = b.Settle(t.Context(), reservation, 0)
		require.NoError(t, err)
		requireRemaining(t, 10, b, "key")
	})
}

// A Memory forgets the oldest reservations when there are too many, and all
// after a day.
func TestMemoryReservationsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := NewMemory(TokenBucket, PerDay(1_000_000), WithMaxKeys(10))
		require.NoError(t, err)
		var all []Reservation
		for range 1000 {
			r, _, err := m.Reserve(t.Context(), "key", 1)
			require.NoError(t, err)
			all = append(all, r)
			if len(all)%2 == 0 {
				_, err := m.Settle(t.Context(), r, 1)
				require.NoError(t, err)
			}
		}
		require.LessOrEqual(t, len(m.reserved.byID), 10)
		require.LessOrEqual(t, len(m.reserved.oldest), 200)
		_, err = m.Settle(t.Context(), all[0], 0)
		require.ErrorIs(t, err, ErrSettled)
		_, err = m.Settle(t.Context(), all[998], 0)
		require.NoError(t, err)

		last := all[996]
		time.Sleep(24*time.Hour + time.Second)
		_, err = m.Settle(t.Context(), last, 0)
		require.ErrorIs(t, err, ErrSettled)
	})
}

// What is kept of a reservation in Redis is small, and goes with it or after a day.
func TestReservationInRedis(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, PerHour(10).WithBurst(10), func(t *testing.T, r *Redis) {
		rdb := sharedRedis(t)
		long := strings.Repeat("x", 1000)
		for _, key := range []string{"key", long, "{tag}key"} {
			reservation, _, err := r.Reserve(t.Context(), key, 2)
			require.NoError(t, err)
			name := r.redisKey(key) + ":r:" + reservation.ID
			ttl, err := rdb.PTTL(t.Context(), name).Result()
			require.NoError(t, err)
			require.InDelta(t, 24*time.Hour, ttl, float64(10*time.Second))
			bytes, err := rdb.MemoryUsage(t.Context(), name).Result()
			require.NoError(t, err)
			require.LessOrEqual(t, bytes, int64(150+len(name)))
			_, err = r.Settle(t.Context(), reservation, 1)
			require.NoError(t, err)
			require.Zero(t, rdb.Exists(t.Context(), name).Val())
		}
	})
}
