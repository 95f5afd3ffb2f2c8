package ratelimit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Lease is a Limiter for hot keys. It takes units from the Limiter it wraps in
// blocks and hands them out in process, so that most decisions need no round
// trip:
//
//	limiter := &ratelimit.Lease{Limiter: inRedis}
//
// Fill in the Limiter before the first call and change no field after it. A
// Lease must not be copied. It starts no goroutine and needs no closing; see
// Release for what a service may do when it stops.
//
// # What is promised
//
// A unit is handed out at most once, only after it was taken, and at most
// MaxAge after that; the call that took it has it when the answer comes. So in
// any span of time all processes together hand out no more than Limiter lets
// pass in a span that is longer by MaxAge:
//
//   - Fixed window: never more than Rate in a window. A block ends with its
//     window, 2 ms before it, as Redis counts in milliseconds.
//   - Token bucket and leaky bucket: in any time t at most
//     Burst + (t + MaxAge) × Rate / Period.
//   - Sliding window log: at most Rate in any Period less MaxAge. In a whole
//     Period it may be more by what was still in the blocks when it began.
//   - Sliding window counter: the same, by its own estimate.
//
// MaxAge counts here as it is in use: at most a tenth of the Period. Who can't
// bear even that asks Limiter itself.
//
// # Blocks
//
// A process has at most one block of a key at a time. What is in it counts as
// used, so other processes may be refused while it lasts. Its first block is one
// unit. The next is twice as large as the last if that lasted for less than half
// of MaxAge, and for each MaxAge that it lasted half as large. No block is larger
// than MaxBlock, nor than an eighth of what was left when the last was taken,
// beside the units that callers are waiting for. Near the limit all units are
// thus taken one by one.
//
// When a block is empty one call at a time asks for the next, and the others
// wait until it is there or their context ends. If that call fails, those who
// waited get its error as well, unless it failed because its own context ended:
// then another asks. Where a round trip takes longer than MaxAge (which is a
// tenth of a short Period), nothing can be handed out later, and the calls for a
// key ask one after the other: do without a Lease there.
//
// A call that needs more than there is takes what it needs at once, or nothing:
// units that were granted to a call in vain stay in the block.
//
// # What is lost
//
// Units that are taken and not handed out in time stay used in Redis: what is
// left when a block lapses, when its key is forgotten for lack of room, when it is
// Reset or the process ends, and when a call that asked for a block fails without
// an answer or panics. Each time that is at most one block.
//
// # What it tells
//
// A Result is as of the last block: Remaining is what Redis had left then, and
// what is left of the block, so it does not show what others took since.
// ResetAfter is what was told then, less the time since.
//
// A refused key is refused again without asking until its RetryAfter is over, by
// the rules of DenyCache, which it does not need beside it. As there, a limit that
// was changed, a LimitFunc, and a Reset elsewhere are not seen until something
// has to be asked: for a key that is allowed that is at most MaxAge later.
//
// Put it close to Redis, inside a limiter that falls back, observes or waits.
type Lease struct {
	// Limiter has the units: a *Redis, or a *Memory in tests. It is required.
	Limiter Base

	// MaxBlock is the most units in a block, 1,000 if it is 0 or less, and never
	// over 1,000,000. With 1 no unit is taken before somebody asks for it.
	MaxBlock int

	// MaxAge is how long units may be handed out after they were taken, counted
	// from before the call that took them by the process's monotonic clock. It
	// is 50 ms if it is 0 or less, and never over a tenth of the limit's Period.
	// Longer means fewer calls of Limiter; what else, see above.
	MaxAge time.Duration

	// MaxKeys is the most keys that are kept, 100,000 if it is 0 or less. A key
	// takes about 500 bytes beside its text, of which at most 288 bytes are kept;
	// 8 bytes a key are set aside at the first call. A new key takes the room of
	// one that has neither a block nor a refusal, or of the one where these end
	// first: what is left of that block is lost.
	MaxKeys int

	once sync.Once
	keys *leaseTable
}

const (
	defaultLeaseBlock = 1000
	defaultLeaseKeys  = 100_000
	defaultLeaseAge   = 50 * time.Millisecond
	maxLeaseBlock     = 1_000_000

	leaseName = "lease" // in errors
)

var errNoBase = errors.New("ratelimit: the Lease has no Limiter")

// Allow is AllowN for one unit: see Limiter.
func (l *Lease) Allow(ctx context.Context, key string) (Result, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN takes n units of key's limit, all of them or none: see Limiter. What
// is decided here takes about 100 ns and allocates nothing, unless the key is
// longer than 256 bytes. An error is one of the wrapped limiter, or says that
// the context ended while another call asked for a block.
func (l *Lease) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if l == nil || l.Limiter == nil {
		return Result{}, errNoBase
	}
	if ctx.Err() != nil || key == "" || n < 1 {
		return l.Limiter.AllowN(ctx, key, n) // which has the error for it
	}
	call := l.table().begin(key)
	if k := call.seen; k != nil {
		if r, ok := k.answer(n, call.began); ok {
			return r, nil
		}
	}
	return l.ask(ctx, key, n, call)
}

// Peek tells what Allow would answer: from here where that would need no call of
// the wrapped limiter, else by its Peek. It takes nothing and remembers nothing.
func (l *Lease) Peek(ctx context.Context, key string) (Result, error) {
	if l == nil || l.Limiter == nil {
		return Result{}, errNoBase
	}
	if ctx.Err() == nil && key != "" {
		call := l.table().begin(key)
		if k := call.seen; k != nil {
			if r, ok := k.look(call.began); ok {
				return r, nil
			}
		}
	}
	return l.Limiter.Peek(ctx, key)
}

// Reset forgets what key has used, here and in the wrapped limiter, once no
// call is asking for a block. Blocks of other processes stay, and lapse within
// MaxAge. If it ends in an error, the block is gone nevertheless, and the
// wrapped limiter may still carry it out later: reset again.
func (l *Lease) Reset(ctx context.Context, key string) error {
	if l == nil || l.Limiter == nil {
		return errNoBase
	}
	if ctx.Err() != nil || key == "" {
		return l.Limiter.Reset(ctx, key)
	}
	t := l.table()
	k, _, err := t.hold(ctx, t.begin(key), 0)
	if err != nil {
		return &callError{leaseName, key, err}
	}
	if k == nil { // then there is no block
		return l.Limiter.Reset(ctx, key)
	}
	defer k.unlock()
	k.drop()
	defer k.denial.Store(nil) // as until then calls may be refused by what is being forgotten
	return l.Limiter.Reset(ctx, key)
}

func (l *Lease) table() *leaseTable {
	l.once.Do(l.makeTable)
	return l.keys
}

func (l *Lease) makeTable() {
	positive := func(n, other int) int {
		if n < 1 {
			return other
		}
		return n
	}
	t := newLeaseTable(positive(l.MaxKeys, defaultLeaseKeys))
	t.maxBlock = min(positive(l.MaxBlock, defaultLeaseBlock), maxLeaseBlock)
	t.maxAge = l.MaxAge
	if t.maxAge <= 0 {
		t.maxAge = defaultLeaseAge
	}
	l.keys = t
}
