package ratelimit

import (
	"context"
	"errors"
)

// Release gives back what is left in the blocks, by one Refund a key and by its
// rules, see Base: for when a service stops, after its last call. It need not be
// called, as blocks lapse soon. If there are calls meanwhile or later, they take
// new blocks.
//
// It goes on until ctx ends. The error tells of the Refunds that failed; their
// units stay used, or may still be given back later. In a fixed window that
// could be to the next window, and let one block more pass: to make that
// unlikely, a Refund is given up when its block lapses. Blocks of keys longer
// than 256 bytes are left to lapse.
func (l *Lease) Release(ctx context.Context) error {
	if l == nil || l.Limiter == nil {
		return errNoBase
	}
	t := l.table()
	var errs []error
	for i := range t.slots {
		k := t.slots[i].Load()
		if k == nil || len(k.key) > longestKey || k.block.Load().units(t.now()) == 0 {
			continue
		}
		if err := l.release(ctx, k); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (l *Lease) release(ctx context.Context, k *leaseKey) error {
	if err := k.lock(ctx, 0); err != nil {
		return &callError{leaseName, k.key, err}
	}
	defer k.unlock()
	now, b := l.keys.now(), k.block.Load()
	units := b.seal(now)
	k.drop()
	if units == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.ends-now)
	defer cancel()
	_, err := l.Limiter.Refund(ctx, k.key, units)
	if err == nil {
		k.denial.Store(nil)
	}
	return err
}
