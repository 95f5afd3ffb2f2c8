package ratelimit

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever several processes are asked, at whatever times, and however long
// their limiter takes: each unit that is handed out is one that was taken no
// longer than MaxAge ago, in the same window if the windows are fixed, and
// nothing is handed out twice.
func TestLeaseHandsOutWhatWasTaken(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			c, fromBlocks := seeded(t), 0
			for range 5 {
				synctest.Test(t, func(t *testing.T) { fromBlocks += runLeaseModel(t, a, c, 200) })
			}
			require.Greater(t, fromBlocks, 200, "too little was handed out here")
		})
	}
}

// A leasing is a process, and what it took and may still hand out.
type leasing struct {
	*Lease
	*lender
}

// runLeaseModel tells how many calls were allowed without asking.
func runLeaseModel(t *testing.T, a Algorithm, c *choices, steps int) (fromBlocks int) {
	t.Helper()
	period := time.Duration(20+c.below(3000)) * time.Millisecond
	limit := Per(20+int(c.below(5000)), period).WithBurst(20 + int(c.below(5000)))
	memory, capacity := newMemory(t, a, limit), limit.capacity(a)
	maxAge := time.Duration(c.of(0, 0, int64(5*time.Millisecond), int64(time.Hour)))
	var processes []leasing
	for range 1 + c.below(4) {
		lender := &lender{Memory: memory}
		if slow := c.below(3); slow > 0 {
			lender.before = func() { time.Sleep(time.Duration(c.below(int64(5*time.Millisecond))) * time.Duration(slow*slow)) }
			lender.after = lender.before
		}
		processes = append(processes, leasing{&Lease{
			Limiter: lender, MaxAge: maxAge, MaxBlock: int(c.of(0, 1, 10, 1<<40)), MaxKeys: 1,
		}, lender})
	}
	if maxAge == 0 {
		maxAge = defaultLeaseAge
	}
	maxAge = min(maxAge, period/10)

	for range steps {
		p := processes[c.below(int64(len(processes)))]
		for range 1 + c.below(30) {
			n := int(c.of(1, 1, 1, 2, 1+c.below(10), 1+c.below(int64(capacity)+2)))
			began, asked := time.Now(), len(p.asks)
			r := allow(t, p.Lease, n)
			require.GreaterOrEqual(t, r.Remaining, 0)
			require.LessOrEqual(t, r.Remaining, capacity)
			require.GreaterOrEqual(t, r.ResetAfter, time.Duration(0))
			require.Equal(t, limit, r.Limit)
			if n > capacity {
				require.False(t, r.Allowed)
			}
			if r.Allowed {
				require.True(t, p.hasTaken(n, a, began, maxAge), "%d units were handed out that were not there", n)
				if len(p.asks) == asked {
					fromBlocks++
				}
			}
		}
		switch c.below(60) {
		case 0:
			time.Sleep(period)
		case 1:
			require.NoError(t, p.Reset(t.Context(), "key"))
			p.grants = nil
		case 2:
			_, err := p.Lease.Allow(t.Context(), "another key, for which this one must go")
			require.NoError(t, err)
			p.grants = nil
		default:
			time.Sleep(time.Duration(c.below(int64(maxAge) / 3)))
		}
	}
	return fromBlocks
}

// hasTaken takes n units from those that p took since the call began, or that
// have not lapsed yet.
func (p leasing) hasTaken(n int, a Algorithm, began time.Time, maxAge time.Duration) bool {
	now := time.Now()
	lapsed := func(g grant) bool {
		ends := g.at.Add(maxAge)
		if windowEnds := g.at.Add(g.result.ResetAfter); a == FixedWindow && windowEnds.Before(ends) {
			ends = windowEnds
		}
		return g.at.Before(began) && !now.Before(ends)
	}
	p.grants = slices.DeleteFunc(p.grants, lapsed)
	for i := range p.grants {
		taken := min(n, p.grants[i].units)
		p.grants[i].units -= taken
		n -= taken
	}
	return n == 0
}
