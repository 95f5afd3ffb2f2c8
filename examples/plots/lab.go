package main

import (
	"context"
	"image/color"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

// A kind is one of the five, with the name and the color it has in all pictures.
type kind struct {
	algorithm ratelimit.Algorithm
	name      string
	color     color.Color
	make      func(redis.UniversalClient, ratelimit.Limits, ...ratelimit.Option) (*ratelimit.Redis, error)
}

var (
	tokenBucket = kind{ratelimit.TokenBucket, "token bucket", rgb(0x0067ac), ratelimit.NewTokenBucket}
	leakyBucket = kind{ratelimit.LeakyBucket, "leaky bucket", rgb(0x0a8468), ratelimit.NewLeakyBucket}
	fixedWindow = kind{ratelimit.FixedWindow, "fixed window", rgb(0xcc3d0c), ratelimit.NewFixedWindow}
	slidingLog  = kind{ratelimit.SlidingWindowLog, "sliding window log", rgb(0x7b3fa0), ratelimit.NewSlidingWindowLog}
	counter     = kind{ratelimit.SlidingWindowCounter, "sliding window counter", rgb(0xb07700), ratelimit.NewSlidingWindowCounter}

	kinds = []kind{tokenBucket, leakyBucket, fixedWindow, slidingLog, counter}
)

// A script is what happens in a run: calls at some times, under a limit that
// may change.
type script struct {
	calls []time.Duration
	limit func(k kind, at time.Duration) ratelimit.Limit
	until time.Duration
	watch time.Duration // how often it is looked what remains; 0: never
}

// A call is when one was made and what became of it.
type call struct {
	at      time.Duration
	allowed bool
}

// A look is what remained at a time.
type look struct {
	at        time.Duration
	remaining int
}

// A record is what one limiter did in a run.
type record struct {
	kind
	calls []call
	looks []look
}

// began is when every run begins, by the clock of the server.
var began = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// play runs a script on limiters of the given kinds, all at the same times, on
// a miniredis whose clock is set by hand.
func play(s script, of ...kind) ([]*record, error) {
	m := miniredis.NewMiniRedis()
	m.SetTime(began)
	m.ClockTTL(true) // keys expire by that clock
	if err := m.Start(); err != nil {
		return nil, err
	}
	defer m.Close()
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rdb.Close()

	var now time.Duration
	records, limiters := make([]*record, len(of)), make([]ratelimit.Limiter, len(of))
	for i, k := range of {
		records[i] = &record{kind: k}
		var err error
		limiters[i], err = k.make(rdb, ratelimit.LimitFunc(func(context.Context, string) (ratelimit.Limit, error) {
			return s.limit(k, now), nil
		}))
		if err != nil {
			return nil, err
		}
	}

	ctx, key := context.Background(), "user:12345"
	for _, moment := range s.moments() {
		now = moment.at
		m.SetTime(began.Add(now))
		for i, limiter := range limiters {
			if moment.look {
				result, err := limiter.Peek(ctx, key)
				if err != nil {
					return nil, err
				}
				records[i].looks = append(records[i].looks, look{now, result.Remaining})
				continue
			}
			result, err := limiter.Allow(ctx, key)
			if err != nil {
				return nil, err
			}
			records[i].calls = append(records[i].calls, call{now, result.Allowed})
		}
	}
	return records, nil
}

// A moment is a call, or a look at what remains.
type moment struct {
	at   time.Duration
	look bool
}

// moments are all of a script, in order; a look sees what the calls at its
// time have left.
func (s script) moments() []moment {
	var all []moment
	for _, at := range s.calls {
		all = append(all, moment{at, false})
	}
	if s.watch > 0 {
		for at := time.Duration(0); at <= s.until; at += s.watch {
			all = append(all, moment{at, true})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return int(a.at - b.at) })
	return all
}

// always is the same limit at all times.
func always(l ratelimit.Limit) func(kind, time.Duration) ratelimit.Limit {
	return func(kind, time.Duration) ratelimit.Limit { return l }
}

// burst is n calls at once.
func burst(at time.Duration, n int) []time.Duration {
	return slices.Repeat([]time.Duration{at}, n)
}

// steady is a call each interval, from from until before to.
func steady(from, to, interval time.Duration) []time.Duration {
	var all []time.Duration
	for at := from; at < to; at += interval {
		all = append(all, at)
	}
	return all
}

// allowed is how many calls were.
func (r *record) allowed() int {
	n := 0
	for _, c := range r.calls {
		if c.allowed {
			n++
		}
	}
	return n
}

// within is, for each time at which a call is allowed or has become a period
// old, how many were allowed in the period that ends then.
func (r *record) within(period time.Duration) []look {
	var times, edges []time.Duration
	for _, c := range r.calls {
		if c.allowed {
			times = append(times, c.at)
			edges = append(edges, c.at, c.at+period)
		}
	}
	slices.Sort(edges)
	all := []look{{}}
	for _, edge := range slices.Compact(edges) {
		n := 0
		for _, t := range times {
			if t > edge-period && t <= edge {
				n++
			}
		}
		all = append(all, look{edge, n})
	}
	return all
}
