package ratelimit

import (
	"context"
	"errors"
	"sync"
)

// DenyCache is a Limiter that remembers what the Limiter it wraps has refused,
// and refuses it again without asking until the RetryAfter is over. A flood on
// keys that are refused then costs Redis nothing:
//
//	limiter := &ratelimit.DenyCache{Limiter: inRedis}
//
// Fill in the Limiter before the first call and change no field after it. A
// DenyCache must not be copied. It starts no goroutine and needs no closing.
//
// # What it refuses
//
// A key that was refused n units is refused n or more, and asked for fewer as
// ever. For the same n RetryAfter is what was told less the time since, so it
// stays exact; for more units it is at least what is known here of fewer, also
// where it would be Never, and the wrapped limiter tells the rest after it. The
// time counts from before the call that was refused, by the process's monotonic
// clock: nobody is refused here for longer than was told. ResetAfter counts
// down as well. Limit and Remaining are as they were told; units that come back
// meanwhile do not show.
//
// A refusal with a RetryAfter of Never has no end. It is remembered for a
// second, so that a limit that was raised is found soon.
//
// What takes no units away changes nothing here: errors, and what Peek finds
// out, are never remembered. When a key is allowed something, what was refused
// it is forgotten, as the waits are longer now.
//
// # What it can't see
//
// Units that come to a key by other ways than time: a limit that was raised or
// lifted, a Reset by another process, a server that lost its data. A refused
// key finds out when its wait is over, or by a Reset here. A LimitFunc is not
// asked for a key that is refused here, and no error is told that the wrapped
// limiter would meet. Where waits are long and such changes must count at once,
// Reset the key here, or do without.
//
// Put it close to Redis, inside a limiter that falls back, observes or waits:
// then it remembers only what Redis has said, and the others see all calls.
type DenyCache struct {
	// Limiter decides what is not refused here.
	Limiter Limiter

	// MaxKeys is the most keys that are remembered, 100,000 if it is 0 or less.
	// A key takes about 150 bytes beside its text, of which at most 288 bytes
	// are kept; 8 bytes a key are set aside at the first call. A new key may
	// take the room of one whose wait is over sooner, seldom as long as no more
	// than half of MaxKeys are refused at once: to forget a key costs no more
	// than asking the wrapped limiter again.
	MaxKeys int

	once  sync.Once
	table *denyTable
}

const defaultDenyKeys = 100_000

var errNoLimiter = errors.New("ratelimit: the DenyCache has no Limiter")

// Allow is AllowN for one unit: see Limiter.
func (c *DenyCache) Allow(ctx context.Context, key string) (Result, error) {
	return c.AllowN(ctx, key, 1)
}

// AllowN takes n units of key's limit, all of them or none: see Limiter. What
// is refused here takes about 100 ns and allocates nothing, unless the key is
// longer than 256 bytes.
func (c *DenyCache) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if c == nil || c.Limiter == nil {
		return Result{}, errNoLimiter
	}
	if ctx.Err() != nil || key == "" || n < 1 {
		return c.Limiter.AllowN(ctx, key, n) // which has the error for it
	}
	t := c.denials()
	call := t.begin(key)
	if r, refused := call.seen.answer(n, call.began); refused {
		return r, nil
	}
	r, err := c.Limiter.AllowN(ctx, key, n)
	switch {
	case err != nil:
	case r.Allowed:
		t.allowed(call)
	default:
		t.remember(call, n, r)
	}
	return r, err
}

// Peek tells what Allow would answer. It takes nothing and remembers nothing.
func (c *DenyCache) Peek(ctx context.Context, key string) (Result, error) {
	if c == nil || c.Limiter == nil {
		return Result{}, errNoLimiter
	}
	if ctx.Err() == nil && key != "" {
		call := c.denials().begin(key)
		if r, refused := call.seen.answer(1, call.began); refused {
			return r, nil
		}
	}
	return c.Limiter.Peek(ctx, key)
}

// Reset forgets what key has used, here and in the wrapped limiter. No refusal
// that was decided before it is remembered after it. If it ends in an error,
// the wrapped limiter may still carry it out later: reset again.
func (c *DenyCache) Reset(ctx context.Context, key string) error {
	if c == nil || c.Limiter == nil {
		return errNoLimiter
	}
	// Afterwards, as until then calls may be refused by what is being forgotten.
	defer c.denials().reset(key)
	return c.Limiter.Reset(ctx, key)
}

func (c *DenyCache) denials() *denyTable {
	c.once.Do(c.makeTable)
	return c.table
}

func (c *DenyCache) makeTable() {
	maxKeys := c.MaxKeys
	if maxKeys < 1 {
		maxKeys = defaultDenyKeys
	}
	c.table = newDenyTable(maxKeys)
}
