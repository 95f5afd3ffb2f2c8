package ratelimit

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A crowd that finds nothing here asks a few times, for as many as are waiting.
func TestLeaseOfACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lender := lend(t, TokenBucket, PerHour(250))
		lender.before = func() { time.Sleep(time.Millisecond) }
		l := &Lease{Limiter: lender}
		began := time.Now()
		var allowed, refused atomic.Int64
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() {
				if r, err := l.Allow(t.Context(), "key"); err == nil && r.Allowed {
					allowed.Add(1)
				} else if err == nil {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 250, allowed.Load())
		require.EqualValues(t, 50, refused.Load())
		require.LessOrEqual(t, len(lender.asked()), 4)
		require.LessOrEqual(t, time.Since(began), 4*time.Millisecond)
	})
}

// Who waits for another's answer waits no longer than its own context lasts,
// and asks itself if that of the other has ended.
func TestLeaseContextOfWhoAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asks atomic.Int64
		l := &Lease{Limiter: newMemory(t, TokenBucket, LimitFunc(func(ctx context.Context, _ string) (Limit, error) {
			if asks.Add(1) == 1 {
				<-ctx.Done()
				return Limit{}, ctx.Err()
			}
			return PerHour(100), nil
		}))}
		var wg sync.WaitGroup
		call := func(lasts, ends time.Duration, want error) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), lasts)
				defer cancel()
				began := time.Now()
				r, err := l.Allow(ctx, "key")
				if want == nil {
					require.NoError(t, err)
					require.True(t, r.Allowed)
				} else {
					require.ErrorIs(t, err, want)
					require.ErrorContains(t, err, `key "key"`)
				}
				require.Equal(t, ends, time.Since(began))
			})
			synctest.Wait()
		}
		call(time.Second, time.Second, context.DeadlineExceeded)
		for range 10 {
			call(time.Minute, time.Second, nil)
			call(300*time.Millisecond, 300*time.Millisecond, context.DeadlineExceeded)
		}
		wg.Wait()
		require.EqualValues(t, 2, asks.Load(), "the second asks for all that wait")
	})
}

// Who waited for a call that failed has its error. The next call asks again.
func TestLeaseSharesFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asks atomic.Int64
		away := errors.New("away")
		l := &Lease{Limiter: newMemory(t, TokenBucket, LimitFunc(func(context.Context, string) (Limit, error) {
			time.Sleep(time.Second)
			if asks.Add(1) == 1 {
				return Limit{}, away
			}
			return PerHour(100), nil
		}))}
		began := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				r, err := l.Allow(t.Context(), "key")
				require.ErrorIs(t, err, away)
				require.Zero(t, r)
			})
		}
		wg.Wait()
		require.Equal(t, time.Second, time.Since(began))
		require.EqualValues(t, 1, asks.Load())
		require.True(t, allow(t, l, 1).Allowed)
		require.Equal(t, 99, must(l.Limiter.Peek(t.Context(), "key")).Remaining)
	})
}

// A limiter that panics or ends its goroutine leaves nobody waiting, and the
// next block is small, as it might be lost too.
func TestLeaseOverAPanic(t *testing.T) {
	t.Parallel()
	for _, end := range []func(){func() { panic("oh") }, runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			lender := lend(t, TokenBucket, PerHour(1000))
			l := &Lease{Limiter: lender}
			for range 63 {
				require.True(t, allow(t, l, 1).Allowed)
			}
			lender.asked()
			lender.after = func() {
				lender.after = nil
				time.Sleep(time.Millisecond)
				end()
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				_, _ = l.Allow(t.Context(), "key")
				t.Error("it came back")
			})
			synctest.Wait()
			for range 10 {
				wg.Go(func() { require.True(t, allow(t, l, 1).Allowed) })
			}
			wg.Wait()
			require.Equal(t, []int{64, 10}, lender.asked())
			require.Equal(t, 1000-63-64-10, must(lender.Peek(t.Context(), "key")).Remaining)
		})
	}
}
