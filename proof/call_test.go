package proof

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/weirgo/ratelimit"
)

// A call is what a caller asks, with the limit that is in force for it.
type call struct {
	method string
	n      int // of AllowN
	limit  ratelimit.Limit
}

func (c call) String() string {
	if c.method == "AllowN" {
		return fmt.Sprintf("AllowN(%d) with %v", c.n, c.limit)
	}
	return fmt.Sprintf("%s() with %v", c.method, c.limit)
}

// of makes the call. A Reset answers nothing, so its Result is zero.
func (c call) of(ctx context.Context, l ratelimit.Limiter, key string) (ratelimit.Result, error) {
	ctx = context.WithValue(ctx, limitKey{}, c.limit)
	switch c.method {
	case "Allow":
		return l.Allow(ctx, key)
	case "AllowN":
		return l.AllowN(ctx, key, c.n)
	case "Peek":
		return l.Peek(ctx, key)
	default:
		return ratelimit.Result{}, l.Reset(ctx, key)
	}
}

type limitKey struct{}

// limitOfCall are the Limits of limiters under test and of their twins: each
// call brings its own.
var limitOfCall = ratelimit.LimitFunc(func(ctx context.Context, _ string) (ratelimit.Limit, error) {
	return ctx.Value(limitKey{}).(ratelimit.Limit), nil
})

// limitAfterOthers is the same, but lets other callers go first, so that calls
// overlap which would be too quick for that.
var limitAfterOthers = ratelimit.LimitFunc(func(ctx context.Context, key string) (ratelimit.Limit, error) {
	runtime.Gosched()
	return limitOfCall(ctx, key)
})

// most is the highest rate and burst, and period so long that not a single unit
// comes back while a history lasts: what is allowed depends on nothing but the
// order of the calls.
const (
	most   = 12
	period = 366 * 24 * time.Hour
)

func randomLimit(r *rand.Rand) ratelimit.Limit {
	return ratelimit.Per(1+r.IntN(most), period).WithBurst(r.IntN(most + 1))
}

// randomLimits are those of a history: one, or a few that change from call to
// call, among which may be one that blocks and one that is none.
func randomLimits(r *rand.Rand, change bool) []ratelimit.Limit {
	limits := []ratelimit.Limit{randomLimit(r)}
	if !change {
		return limits
	}
	limits = append(limits, randomLimit(r), randomLimit(r))
	switch r.IntN(8) {
	case 0:
		limits = append(limits, ratelimit.Unlimited)
	case 1:
		limits = append(limits, ratelimit.Per(0, period))
	}
	return limits
}

// randomPlan is what each of some callers will do: 4 to 8 of them, 2 or 3 calls each.
func randomPlan(r *rand.Rand, change bool) [][]call {
	limits := randomLimits(r, change)
	plan := make([][]call, 4+r.IntN(5))
	for i := range plan {
		for range 2 + r.IntN(2) {
			plan[i] = append(plan[i], randomCall(r, limits))
		}
	}
	return plan
}

func randomCall(r *rand.Rand, limits []ratelimit.Limit) call {
	c := call{limit: limits[r.IntN(len(limits))]}
	switch r.IntN(12) {
	case 0:
		c.method = "Reset"
	case 1, 2:
		c.method = "Peek"
	case 3, 4, 5, 6:
		c.method, c.n = "AllowN", 1+r.IntN(most/2)
	case 7:
		c.method, c.n = "AllowN", 1+r.IntN(2*most) // may be more than there ever is
	default:
		c.method = "Allow"
	}
	return c
}
