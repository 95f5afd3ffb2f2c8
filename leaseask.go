package ratelimit

import (
	"context"
	"time"
)

// answer is what a call for n gets here, if it needs not ask.
func (k *leaseKey) answer(n int, now time.Duration) (Result, bool) {
	b := k.block.Load()
	if left, ok := b.take(n, now); ok {
		return b.result(left, now), true
	}
	r, refused := k.denial.Load().answer(n, now)
	if refused {
		r.Remaining = b.and(r.Remaining, b.units(now))
	}
	return r, refused
}

// look is what a call for one unit would get here.
func (k *leaseKey) look(now time.Duration) (Result, bool) {
	b := k.block.Load()
	if left := b.units(now); left > 0 {
		return b.result(left, now), true
	}
	return k.denial.Load().answer(1, now)
}

// ask decides a call that could not be answered here when it began. Of those
// for one key it lets one at a time ask the wrapped limiter; who waited for that
// has its block, its refusal or its failure.
func (l *Lease) ask(ctx context.Context, key string, n int, call leaseCall) (Result, error) {
	var wanted int64
	if n == 1 { // who wants more may want more than there can be
		wanted = 1
	}
	k, failures, err := l.keys.hold(ctx, call, wanted)
	if err != nil {
		return Result{}, &callError{leaseName, key, err}
	}
	if k == nil {
		return l.Limiter.AllowN(ctx, key, n)
	}
	defer k.unlock()
	if r, ok := k.answer(n, l.keys.now()); ok {
		return r, nil
	}
	if k.failures.Load() != failures {
		return Result{}, k.failure
	}
	r, err := l.askFor(ctx, k, key, n)
	if err != nil && !hasEnded(ctx) {
		k.failure = err
		k.failures.Add(1)
	}
	return r, err
}

// askFor asks with k locked. While it asks, nothing is known of the pace: after
// an error or a panic the next block is one unit, for it may be lost as well.
func (l *Lease) askFor(ctx context.Context, k *leaseKey, key string, n int) (Result, error) {
	t, p := l.keys, k.pace
	k.pace = leasePace{}
	began := t.now()
	size := p.next(began, t.maxBlock)
	if n > size {
		return l.askForAll(ctx, k, key, n, p)
	}
	if !p.late {
		size = max(size, min(n+int(k.waiting.Load()), t.maxBlock))
	}
	granted, r, err := l.Limiter.AllowUpTo(ctx, key, size)
	switch {
	case err != nil:
		return Result{}, err
	case granted > 0:
		if r, ok := l.add(k, n, granted, r, began); ok {
			return r, nil
		}
		return l.askForAll(ctx, k, key, n, k.pace) // for the wait for n
	case n > 1:
		return l.askForAll(ctx, k, key, n, leasePace{})
	}
	return k.refused(n, r, began, t.now()), nil
}

// askForAll asks for all n units or none: AllowUpTo would take what there is of
// more than there can be, and does not tell the wait for n.
func (l *Lease) askForAll(ctx context.Context, k *leaseKey, key string, n int, p leasePace) (Result, error) {
	k.pace = leasePace{}
	began := l.keys.now()
	r, err := l.Limiter.AllowN(ctx, key, n)
	if err != nil {
		return Result{}, err
	}
	if r.Allowed {
		r, _ = l.add(k, n, n, r, began)
		return r, nil
	}
	if held := k.block.Load().units(l.keys.now()); held > 0 && r.RetryAfter != Never {
		began := l.keys.now()
		rest, err := l.Limiter.AllowN(ctx, key, n-held)
		if err != nil {
			return Result{}, err
		}
		if rest.Allowed {
			if all, ok := l.add(k, n, n-held, rest, began); ok {
				return all, nil
			}
			p = k.pace
		}
	}
	k.pace = p
	return k.refused(n, r, began, l.keys.now()), nil
}

// add puts units that were just granted to what is left, and takes n of them if
// there are so many. What was there before goes first.
func (l *Lease) add(k *leaseKey, n, granted int, r Result, began time.Duration) (Result, bool) {
	now, old := l.keys.now(), k.block.Load()
	algorithm := algorithmOf(l.Limiter)
	life := blockLife(r.Limit, l.keys.maxAge)
	b := newBlock(r, algorithm, began, life)
	held := old.seal(now)
	left := held + granted - n
	enough := left >= 0
	if !enough {
		left += n
		if held > 0 {
			b.ends = min(b.ends, old.ends)
		}
	}
	late := b.ends <= now
	if late {
		left = 0
	}
	b.left.Store(int64(left))
	k.pace = leasePace{taken: granted, remaining: r.Remaining, began: began, life: life, late: late}
	k.block.Store(b)
	k.denial.Store(nil) // the waits are longer now
	told := b.result(left, now)
	told.ResetAfter = r.ResetAfter
	return told, enough
}

// refused remembers r, which was asked for at began and refused to a call for n.
func (k *leaseKey) refused(n int, r Result, began, now time.Duration) Result {
	call := denyCall{key: k.key, hash: k.hash, began: began}
	k.denial.Store(newDenial(call, n, r, k.denial.Load(), now))
	b := k.block.Load()
	r.Remaining = b.and(r.Remaining, b.units(now))
	return r
}

// drop takes the block away. What is left of it is lost.
func (k *leaseKey) drop() {
	k.block.Swap(nil).seal(0)
	k.pace = leasePace{}
}

// hasEnded tells it also where the timer of ctx is a little late.
func hasEnded(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// algorithmOf is "" for a Limiter that is none of the package's.
func algorithmOf(b Base) (a Algorithm) {
	if s, ok := b.(interface{ settings() (Algorithm, Limits) }); ok {
		a, _ = s.settings()
	}
	return a
}
