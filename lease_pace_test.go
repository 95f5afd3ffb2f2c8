package ratelimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A block grows with demand up to MaxBlock, and shrinks with it to one unit.
func TestLeaseFollowsDemand(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		synctest.Test(t, func(t *testing.T) {
			lender := lend(t, a, PerHour(1_000_000).WithBurst(1_000_000))
			l := &Lease{Limiter: lender, MaxBlock: 64}
			call := func(calls int, each time.Duration) []int {
				for range calls {
					require.True(t, allow(t, l, 1).Allowed)
					time.Sleep(each)
				}
				return lender.asked()
			}
			require.Equal(t, []int{1, 2, 4, 8, 16, 32, 64, 64, 64}, call(255, 100*time.Microsecond))

			// 25 a MaxAge: a block that lasts for less than half of that would be 12 or less.
			asks := call(1000, 2*time.Millisecond)
			for _, n := range asks[len(asks)/2:] {
				require.GreaterOrEqual(t, n, 12)
				require.LessOrEqual(t, n, 32)
			}
			require.Less(t, len(asks), 100)

			// One each MaxAge, then after a pause, is no demand.
			asks = call(20, 50*time.Millisecond)
			require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, asks[len(asks)-10:])
			call(100, 0)
			time.Sleep(10 * time.Second)
			require.Equal(t, []int{1, 2}, call(2, 0))
		})
	}
}

// With a call a block never is more than an eighth of what is left, so that the
// last few units are taken one by one, and all are handed out.
func TestLeaseLeavesEnoughToOthers(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		synctest.Test(t, func(t *testing.T) {
			lender := lend(t, a, PerHour(1000).WithBurst(1000))
			l := &Lease{Limiter: lender}
			calls := 0
			for allow(t, l, 1).Allowed {
				calls++
			}
			require.Equal(t, 1000, calls)
			left, ones := 1000, 0
			for _, n := range lender.asked() {
				require.LessOrEqual(t, n, max(1, left/8))
				if left < 16 {
					require.Equal(t, 1, n)
					ones++
				}
				left -= n
			}
			require.GreaterOrEqual(t, ones, 15)
		})
	}
}

// Calls for many units get blocks as those for one do, and take no part of what
// they can't have.
func TestLeaseOfSeveralUnits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lender := lend(t, SlidingWindowLog, PerHour(10_000))
		l := &Lease{Limiter: lender}
		for range 20 {
			require.True(t, allow(t, l, 100).Allowed)
		}
		require.Less(t, len(lender.asked()), 10)
		r := allow(t, l, 10_001)
		require.Equal(t, Never, r.RetryAfter)
		r, err := l.Peek(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, 8000, r.Remaining)

		// What is left here counts: the rest alone is taken.
		held := r.Remaining - must(lender.Peek(t.Context(), "key")).Remaining
		require.Positive(t, held)
		lender.asked()
		require.True(t, allow(t, l, 8000).Allowed)
		require.Equal(t, []int{8000, 8000 - held}, lender.asked())
		require.Equal(t, 10_000, lender.granted())
		require.False(t, allow(t, l, 1).Allowed)
	})
}

// Units that were granted to a call in vain stay in the block.
func TestLeaseKeepsWhatWasGrantedInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lender := lend(t, TokenBucket, PerHour(1000))
		l := &Lease{Limiter: lender}
		for range 8 {
			require.True(t, allow(t, l, 8).Allowed)
		}
		for l.table().begin("key").seen.block.Load().units(l.keys.now()) > 4 {
			allow(t, l, 1)
		}
		time.Sleep(20 * time.Millisecond) // half of its time and no more, so that the next is no smaller
		inRedis := must(lender.Peek(t.Context(), "key")).Remaining
		_, err := lender.Memory.AllowN(t.Context(), "key", inRedis-3) // somebody else takes all but 3
		require.NoError(t, err)
		total := must(l.Peek(t.Context(), "key")).Remaining - inRedis + 3
		lender.asked()

		r := allow(t, l, total+1)
		require.False(t, r.Allowed)
		require.Equal(t, total, r.Remaining)
		asks := lender.asked()
		require.Greater(t, asks[0], total+1, "not the case that is tested")
		require.Equal(t, total+1, asks[1], "the wait for all of them was not asked for")
		for range total - 1 {
			require.True(t, allow(t, l, 1).Allowed)
		}

		// They lapse with those that were there before.
		time.Sleep(30*time.Millisecond - 1)
		require.True(t, must(l.Peek(t.Context(), "key")).Allowed)
		time.Sleep(time.Nanosecond)
		require.False(t, allow(t, l, 1).Allowed)
	})
}

// What is left here makes nobody have more at once than the limit allows.
func TestLeaseOfMoreThanThereCanBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &Lease{Limiter: newMemory(t, TokenBucket, PerSecond(1000))}
		for range 10 {
			require.True(t, allow(t, l, 1).Allowed)
		}
		time.Sleep(20 * time.Millisecond) // the bucket is full again
		require.Equal(t, 1000, must(l.Limiter.Peek(t.Context(), "key")).Remaining)
		require.Equal(t, Never, allow(t, l, 1001).RetryAfter)
		require.True(t, allow(t, l, 1000).Allowed)
		require.True(t, allow(t, l, 1).Allowed, "there was nothing left here")
	})
}

// Where an answer takes longer than a block would last, no more is asked for
// than is needed at once.
func TestLeaseOfALateAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lender := lend(t, SlidingWindowCounter, PerSecond(10_000))
		l := &Lease{Limiter: lender}
		lender.before = func() { time.Sleep(60 * time.Millisecond) }
		for range 5 {
			require.True(t, allow(t, l, 1).Allowed)
		}
		require.Equal(t, []int{1, 1, 1, 1, 1}, lender.asked())
		lender.before = nil
		for range 7 {
			require.True(t, allow(t, l, 1).Allowed)
		}
		require.Equal(t, []int{1, 2, 4}, lender.asked())

		lender.before = func() { time.Sleep(10 * time.Millisecond) }
		lender.after = func() { time.Sleep(40 * time.Millisecond) }
		r := allow(t, l, 1)
		require.Equal(t, []int{8}, lender.asked())
		require.Equal(t, must(lender.Peek(t.Context(), "key")).Remaining, r.Remaining, "lapsed units are not left")
	})
}

// A limit that changes is seen with the next block.
func TestLeaseSeesAnotherLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := PerSecond(1000)
		lender := lend(t, TokenBucket, LimitFunc(func(context.Context, string) (Limit, error) { return limit, nil }))
		l := &Lease{Limiter: lender}
		for range 100 {
			allow(t, l, 1)
		}
		limit = PerSecond(10)
		require.Equal(t, 1000, allow(t, l, 1).Limit.Rate)
		time.Sleep(50 * time.Millisecond)
		r := allow(t, l, 1)
		require.Equal(t, 10, r.Limit.Rate)
		require.LessOrEqual(t, r.Remaining, 10)
	})
}
