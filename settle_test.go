package ratelimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// All that was reserved was used, so nothing is given back, however low the limit

// is meanwhile.

func TestSettleAfterTheLimitWasCut(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, s *subject) {
		*s.limit = Per(100, time.Hour).WithBurst(100)
		b := s.Limiter.(Base)
		reservation, _, err := b.Reserve(t.Context(), "key", 100)
		require.NoError(t, err)
		*s.limit = Per(10, time.Hour).WithBurst(10)
		r, err := b.Settle(t.Context(), reservation, 100)
		require.NoError(t, err)
		require.Zero(t, r.Remaining)
	})
}

// A settlement is one, whatever the limit says of the key at that time.

func TestSettleWhileTheLimitIsFixed(t *testing.T) {
	t.Parallel()
	baseContract(t, func(t *testing.T, s *subject, b Base) {
		limited := *s.limit
		for _, fixed := range []Limit{Unlimited, Per(0, time.Second)} {
			*s.limit = limited
			reservation, _, err := b.Reserve(t.Context(), "key", 4)
			require.NoError(t, err)
			*s.limit = fixed
			_, err = b.Settle(t.Context(), reservation, 4)
			require.NoError(t, err)
			*s.limit = limited
			_, err = b.Settle(t.Context(), reservation, 0)
			require.ErrorIs(t, err, ErrSettled)
		}
	})
}

// bothBuckets runs f for the two buckets, in Redis and in memory.

func bothBuckets(t *testing.T, f func(t *testing.T, s *subject, b Base)) {
	t.Helper()
	for _, a := range []Algorithm{TokenBucket, LeakyBucket} {
		t.Run(string(a)+"/redis", func(t *testing.T) {
			t.Parallel()
			s := redisSubject(t, a)
			f(t, s, s.Limiter.(Base))
		})
		t.Run(string(a)+"/memory", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memorySubject(t, a)
				f(t, s, s.Limiter.(Base))
			})
		})
	}
}

// A bucket that a raised limit has filled meanwhile gives nothing back.

func TestSettleAfterARaisedLimitFilledTheBucket(t *testing.T) {
	t.Parallel()
	bothBuckets(t, func(t *testing.T, s *subject, b Base) {
		*s.limit = Per(10, time.Hour).WithBurst(10)
		reservation, _, err := b.Reserve(t.Context(), "key", 10)
		require.NoError(t, err)
		*s.limit = Per(10, time.Second).WithBurst(10)
		s.pass(time.Second)
		r, err := b.AllowN(t.Context(), "key", 10)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		r, err = b.Settle(t.Context(), reservation, 0)
		require.NoError(t, err)
		require.Zero(t, r.Remaining, "20 of 10")
	})
}

// A key is kept for some ms longer than it counts.

func TestSettleJustAfterTheBucketWasFull(t *testing.T) {
	t.Parallel()
	bothBuckets(t, func(t *testing.T, s *subject, b Base) {
		*s.limit = Per(10, 10*time.Second).WithBurst(10)
		reservation, _, err := b.Reserve(t.Context(), "key", 10)
		require.NoError(t, err)
		s.pass(10 * time.Second)
		r, err := b.AllowN(t.Context(), "key", 10)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		r, err = b.Settle(t.Context(), reservation, 0)
		require.NoError(t, err)
		require.Zero(t, r.Remaining, "20 of 10")
	})
}

// The windows that follow each other may be shorter than the ms by which an end

// is uncertain.

func TestSettleInTheNextShortWindow(t *testing.T) {
	t.Parallel()
	for _, period := range []time.Duration{time.Millisecond, 2 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := memorySubject(t, FixedWindow)
			b := s.Limiter.(Base)
			*s.limit = Per(10, period)
			reservation, _, err := b.Reserve(t.Context(), "key", 10)
			require.NoError(t, err)
			s.pass(period)
			r, err := b.AllowN(t.Context(), "key", 10)
			require.NoError(t, err)
			require.True(t, r.Allowed)
			r, err = b.Settle(t.Context(), reservation, 0)
			require.NoError(t, err)
			require.Zero(t, r.Remaining, "%v: 20 of 10", period)
		})
	}
}

// Nothing is given back after a Reset.

func TestSettleRightAfterReset(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := memorySubject(t, a)
				b := s.Limiter.(Base)
				*s.limit = Per(10, 10*time.Second).WithBurst(10)
				reservation, _, err := b.Reserve(t.Context(), "key", 3)
				require.NoError(t, err)
				require.NoError(t, b.Reset(t.Context(), "key"))
				s.pass(3 * time.Millisecond)
				_, err = b.AllowN(t.Context(), "key", 6)
				require.NoError(t, err)
				r, err := b.Settle(t.Context(), reservation, 0)
				require.NoError(t, err)
				require.Equal(t, 4, r.Remaining)
			})
		})
	}
}

// A server that hangs is the matter of those requests that need it.

// A mistake is told as what it is.

// Keys that share a tag may be long.
