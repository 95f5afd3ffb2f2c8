package ratelimit

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The bounds of a Limit. They keep every number in the scripts below 2^53.
const (
	maxUnits  = 1_000_000_000_000       // Rate and Burst
	maxPeriod = 366 * 24 * time.Hour    // Period
	maxFill   = 100 * 365 * 24 * 3600e6 // µs in which a whole burst comes back
	maxLogged = 1_000_000               // Rate of the sliding window log
	unlimited = math.MaxInt             // the Rate of Unlimited
)

// A Limit says how many units may be taken: Rate in every Period, and for the
// two buckets at most Burst at once.
//
// The zero Limit is invalid, so that a forgotten one neither blocks nor opens
// everything. A limit with a Rate of 0 and a Period blocks every call.
type Limit struct {
	// Rate is the units a Period: 0, which blocks, to 10^12, for the sliding
	// window log to 10^6. The Rate of Unlimited is math.MaxInt.
	Rate int

	// Period is whole microseconds: 1 µs to 366 days. The fixed window, whose
	// time is Redis's own expiry, rounds it up to a whole millisecond. A plain
	// number, as from JSON, is in nanoseconds.
	Period time.Duration

	// Burst is the most units that a bucket lets through at once: 0 to 10^12,
	// and no more than come back within 100 years. 0 means Rate for the token
	// bucket and 1, strict pacing, for the leaky bucket. The windows ignore it.
	Burst int
}

// Unlimited is the limit of who has none: every call is allowed, and Redis is
// not asked. It is any Limit with a Rate of math.MaxInt.
var Unlimited = Limit{Rate: unlimited, Period: 1}

// Per is rate units every period; a rate of 0 blocks. What is out of the bounds
// of a Limit is told by the constructor that gets it.
func Per(rate int, period time.Duration) Limit { return Limit{Rate: rate, Period: period} }

// PerSecond is rate units every second.
func PerSecond(rate int) Limit { return Per(rate, time.Second) }

// PerMinute is rate units every minute.
func PerMinute(rate int) Limit { return Per(rate, time.Minute) }

// PerHour is rate units every hour.
func PerHour(rate int) Limit { return Per(rate, time.Hour) }

// PerDay is rate units every 24 hours, whatever the calendar says.
func PerDay(rate int) Limit { return Per(rate, 24*time.Hour) }

// WithBurst returns l with its Burst set.
func (l Limit) WithBurst(burst int) Limit {
	l.Burst = burst
	return l
}

// String is such as "100 per 1m, burst 20".
func (l Limit) String() string {
	if l.Rate == unlimited {
		return "unlimited"
	}
	period := l.Period.String()
	if s, ok := strings.CutSuffix(period, "m0s"); ok {
		period = s + "m"
	}
	if s, ok := strings.CutSuffix(period, "h0m"); ok {
		period = s + "h"
	}
	s := strconv.Itoa(l.Rate) + " per " + period
	if l.Burst != 0 {
		s += ", burst " + strconv.Itoa(l.Burst)
	}
	return s
}

// LimitFor makes every Limit a Limits: the same for all keys.
func (l Limit) LimitFor(context.Context, string) (Limit, error) { return l, nil }

// Limits gives each key its limit. It is asked at every call, on the caller's
// goroutine, and a changed limit takes effect at the next call. It must heed
// ctx if it can take long, and be safe for use from many goroutines.
type Limits interface {
	LimitFor(ctx context.Context, key string) (Limit, error)
}

// A LimitFunc is a Limits: for limits by plan, tenant or configuration.
type LimitFunc func(ctx context.Context, key string) (Limit, error)

// LimitFor calls f.
func (f LimitFunc) LimitFor(ctx context.Context, key string) (Limit, error) { return f(ctx, key) }

// capacity is the most units that l ever lets algorithm a take at once.
func (l Limit) capacity(a Algorithm) int {
	switch {
	case a == LeakyBucket && l.Burst == 0 && l.Rate > 0:
		return 1
	case a == LeakyBucket, a == TokenBucket && l.Burst != 0:
		return l.Burst
	}
	return l.Rate
}

// check tells whether algorithm a can be exact with l; the error names the
// field and the bound.
func (l Limit) check(a Algorithm) error {
	rates := int64(maxUnits)
	if a == SlidingWindowLog {
		rates = maxLogged
	}
	switch {
	case l.Rate == unlimited:
		return nil
	case l == Limit{}:
		return fmt.Errorf("%w: it is the zero Limit; for no limit use Unlimited, to block use Per(0, time.Second)", ErrInvalidLimit)
	case l.Rate == badShare:
		return fmt.Errorf("%w: it is the Share of fewer than 1 replica", ErrInvalidLimit)
	case l.Rate < 0 || int64(l.Rate) > rates:
		return fmt.Errorf("%w: Rate is %d, it must be 0 to %d", ErrInvalidLimit, l.Rate, rates)
	case l.Period < time.Microsecond || l.Period > maxPeriod:
		return fmt.Errorf("%w: Period is %v, it must be 1µs to %v (366 days)", ErrInvalidLimit, l.Period, maxPeriod)
	case l.Period%time.Microsecond != 0:
		return fmt.Errorf("%w: Period is %v, it must be whole microseconds", ErrInvalidLimit, l.Period)
	case l.Burst < 0 || int64(l.Burst) > maxUnits:
		return fmt.Errorf("%w: Burst is %d, it must be 0 to %d", ErrInvalidLimit, l.Burst, int64(maxUnits))
	}
	if l.Rate == 0 || l.Burst == 0 {
		return nil
	}
	if fill, _ := muldiv(int64(l.capacity(a)), l.Period.Microseconds(), int64(l.Rate)); fill > maxFill {
		return fmt.Errorf("%w: Burst is %d, with %d per %v it would take over 100 years to come back",
			ErrInvalidLimit, l.capacity(a), l.Rate, l.Period)
	}
	return nil
}
