package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowded calls f from 64 goroutines for each algorithm, in Redis and in memory,
// with a limit of 1,000 of which no unit comes back meanwhile.
func crowded(t *testing.T, f func(b Base) error, check func(t *testing.T, b Base)) {
	t.Helper()
	eachBase(t, func(t *testing.T, base func(Algorithm, Limits) Base) {
		for _, a := range allAlgorithms {
			l := bookLimits(a)
			if l.Burst > 0 {
				l.Burst, l.Rate = 1000, 100
			} else {
				l.Rate = 1000
			}
			b := base(a, l)
			errs := make(chan error, 64)
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() { errs <- f(b) })
			}
			wg.Wait()
			for range 64 {
				require.NoError(t, <-errs)
			}
			check(t, b)
		}
	})
}

// What AllowUpTo grants to many at once is the limit, to the unit.
func TestAllowUpToGrantsTheLimit(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	granted := map[Base]int{}
	crowded(t, func(b Base) error {
		for range 10 {
			n := 1 + rand.IntN(40)
			got, r, err := b.AllowUpTo(t.Context(), "key", n)
			if err != nil {
				return err
			}
			if got > n || r.Allowed != (got > 0) || got < n && r.Remaining > 0 {
				return fmt.Errorf("%d of %d were granted: %+v", got, n, r)
			}
			mu.Lock()
			granted[b] += got
			mu.Unlock()
		}
		return nil
	}, func(t *testing.T, b Base) {
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, 1000, granted[b], "%+v", b)
		require.Equal(t, 1000, usedUnits(t, b, "key", 1000))
	})
}

// Charges of many at once add up, with what AllowUpTo grants beside them.
func TestChargesAddUp(t *testing.T) {
	t.Parallel()
	var granted sync.Map // of *atomic.Int64 by Base
	crowded(t, func(b Base) error {
		sum, _ := granted.LoadOrStore(b, new(atomic.Int64))
		for n := range 5 { // 9 units each
			if _, err := b.Charge(t.Context(), "key", n%3+1); err != nil {
				return err
			}
			got, _, err := b.AllowUpTo(t.Context(), "key", 4)
			if err != nil {
				return err
			}
			sum.(*atomic.Int64).Add(int64(got))
		}
		return nil
	}, func(t *testing.T, b Base) {
		sum, _ := granted.Load(b)
		got := int(sum.(*atomic.Int64).Load())
		require.GreaterOrEqual(t, got, 1000-64*9)
		require.LessOrEqual(t, got, 1000)
		require.Equal(t, 64*9+got, usedUnits(t, b, "key", 1000))
	})
}

// Charges of many at once stop at a debt of one capacity.
func TestChargesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	crowded(t, func(b Base) error {
		for range 5 {
			if _, err := b.Charge(t.Context(), "key", 7); err != nil { // 2,240 in all
				return err
			}
		}
		return nil
	}, func(t *testing.T, b Base) {
		require.Equal(t, 2000, usedUnits(t, b, "key", 1000))
	})
}

// A window may end while a charge is answered, on servers whose clock goes on
// while a script runs: the answer is still that of one moment.
func TestChargeAtTheEndOfAWindow(t *testing.T) {
	t.Parallel()
	rdb := sharedRedis(t)
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			r, err := newRedis(a, rdb, Limit{Rate: 3, Period: time.Millisecond}, []Option{WithPrefix(uniqueKey(t))})
			require.NoError(t, err)
			for range 3000 {
				result, err := r.Charge(t.Context(), "key", 3)
				require.NoError(t, err)
				require.Equal(t, result.Remaining > 0, result.Allowed, "%+v", result)
				require.Equal(t, result.RetryAfter == 0, result.Allowed, "%+v", result)
			}
		})
	}
}
