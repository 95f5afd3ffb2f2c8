package ratelimit

import (
	"context"
	"errors"
	"fmt"
)

// Combined is several limits on the same keys as one Limiter. It is made by All,
// and can be used from many goroutines at once, as every Limiter.
type Combined struct {
	limiters []Base
}

var _ Limiter = (*Combined)(nil)

// All makes one Limiter of several, for limits that hold together, such as 10 a
// second and 1,000 a day: a call takes its units from all of them, or from none
// if one refuses; atomically, and in Redis in one round trip.
//
// The Result is that of the limit that decides: of the refusals the one with the
// longest wait, or if all allow the call, the one with the fewest units left. So
// after RetryAfter the call is allowed, if nobody else takes units meanwhile.
//
// All limiters must be *Redis with the same client, or all *Memory. They need
// different prefixes or algorithms, or they would count the same thing twice. On
// a cluster nothing more is needed, as all that limiters keep for a key lies in
// one slot. For limits on different keys, such as one for all users, see AllowAll.
//
// The error says which of the limiters is nil, or does not go with the others.
func All(limiters ...Base) (*Combined, error) {
	if len(limiters) == 0 {
		return nil, errors.New("ratelimit: no limiters: there must be at least 1")
	}
	seen := make(map[any]int, len(limiters))
	for i, l := range limiters {
		if isNil(l) {
			return nil, fmt.Errorf("ratelimit: limiter %d is nil", i)
		}
		what := any(l)
		if r, ok := l.(*Redis); ok {
			first, ok := limiters[0].(*Redis)
			if r.rdb == nil || ok && first.rdb == nil {
				return nil, errNotMade
			}
			if i > 0 && (!ok || !sameClient(r.rdb, first.rdb)) {
				return nil, fmt.Errorf("ratelimit: limiter %d has another Redis client than limiter 0: they can't be decided together", i)
			}
			what = r.prefix
		} else if m, ok := l.(*Memory); ok && m.limits == nil {
			return nil, errNotMade
		} else if _, ok := limiters[0].(*Memory); !ok {
			return nil, fmt.Errorf("ratelimit: limiter %d is a %T and limiter 0 a %T: they can't be decided together", i, l, limiters[0])
		}
		if j, ok := seen[what]; ok {
			return nil, fmt.Errorf("ratelimit: limiters %d and %d count the same keys: give them different prefixes, see WithPrefix", j, i)
		}
		seen[what] = i
	}
	return &Combined{limiters: append([]Base(nil), limiters...)}, nil
}

// Allow is AllowN for one unit: see Limiter.
func (c *Combined) Allow(ctx context.Context, key string) (Result, error) {
	return c.AllowN(ctx, key, 1)
}

// AllowN takes n units of each limit, or none of any: see Limiter.
func (c *Combined) AllowN(ctx context.Context, key string, n int) (Result, error) {
	result, _, err := c.AllowNResults(ctx, key, n)
	return result, err
}

// AllowNResults is AllowN that also tells what each limit alone says, in the order
// in which All got them. Unlike AllowEach it takes from all or from none.
func (c *Combined) AllowNResults(ctx context.Context, key string, n int) (decides Result, each []Result, err error) {
	return c.decide(ctx, key, n, take)
}

// Peek tells what Allow would answer. It takes nothing and writes nothing.
func (c *Combined) Peek(ctx context.Context, key string) (Result, error) {
	result, _, err := c.decide(ctx, key, 1, peek)
	return result, err
}

// Reset forgets what key has used of each limit, one after the other: if it ends
// in an error, some may be forgotten and others not.
func (c *Combined) Reset(ctx context.Context, key string) error {
	if c == nil || len(c.limiters) == 0 {
		return errNotMade
	}
	var errs []error
	for _, l := range c.limiters {
		errs = append(errs, l.Reset(ctx, key))
	}
	return errors.Join(errs...)
}

func (c *Combined) decide(ctx context.Context, key string, n int, m mode) (decides Result, each []Result, err error) {
	if c == nil || len(c.limiters) == 0 {
		return Result{}, nil, errNotMade
	}
	requests := make([]Request, len(c.limiters))
	for i, l := range c.limiters {
		requests[i] = Request{Limiter: l, Key: key, N: n}
	}
	return allowAll(ctx, requests, m)
}
