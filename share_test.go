package ratelimit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// All shares together are the limit, and at most replicas - 1 units more.
func TestShareAddsUp(t *testing.T) {
	t.Parallel()
	for range 20_000 {
		l := Per(rand.IntN(1<<rand.IntN(40)), time.Duration(1+rand.Int64N(int64(maxPeriod))))
		l.Burst = rand.IntN(1 << rand.IntN(40))
		replicas := 1 + rand.IntN(1<<rand.IntN(16))
		s := l.Share(replicas)
		require.Equal(t, l.Period, s.Period)
		for of, part := range map[int]int{l.Rate: s.Rate, l.Burst: s.Burst} {
			require.GreaterOrEqual(t, part*replicas, of, "%v by %d", l, replicas)
			require.LessOrEqual(t, part*replicas, of+replicas-1, "%v by %d", l, replicas)
		}
	}
}

func TestShareOfExtremes(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	for _, c := range []struct {
		limit    Limit
		replicas int
		want     Limit
	}{
		{Per(100, hour).WithBurst(20), 1, Per(100, hour).WithBurst(20)},
		{Per(100, hour).WithBurst(20), 3, Per(34, hour).WithBurst(7)},
		{Per(5, hour), 1000, Per(1, hour)},
		{Per(5, hour), math.MaxInt, Per(1, hour)},
		{Per(maxUnits, hour), 2, Per(maxUnits/2, hour)},
		{Per(0, hour), 3, Per(0, hour)},
		{Unlimited, 7, Unlimited},
		// What is invalid does not become valid.
		{Limit{}, 3, Limit{}},
		{Per(-1, hour), 3, Per(-1, hour)},
		{Per(3, hour).WithBurst(-1), 3, Per(1, hour).WithBurst(-1)},
	} {
		require.Equal(t, c.want, c.limit.Share(c.replicas), "%v by %d", c.limit, c.replicas)
	}
}

// A share among nobody is refused, also that of Unlimited.
func TestShareAmongNobody(t *testing.T) {
	t.Parallel()
	for _, l := range []Limit{PerHour(5), PerHour(0), Unlimited, {}} {
		for _, replicas := range []int{0, -1, math.MinInt} {
			for _, a := range allAlgorithms {
				_, err := NewMemory(a, l.Share(replicas))
				require.ErrorIs(t, err, ErrInvalidLimit)
				require.ErrorContains(t, err, "Share of fewer than 1 replica")
				_, err = newRedis(a, sharedRedis(t), l.Share(replicas), nil)
				require.ErrorIs(t, err, ErrInvalidLimit)
			}
		}
	}
}
