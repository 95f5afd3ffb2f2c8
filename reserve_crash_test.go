package ratelimit

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crash kills a process in the middle of a call and hires another. done tells that
// the call was made and nobody was told.
func (o *office) crash(t *testing.T, prefix string) (done bool) {
	t.Helper()
	i := o.below(int64(len(o.clerks)))
	c, last := o.clerks[i], o.order()
	sent := last
	sent.Crash = o.below(2) == 0 // else it is killed wherever it has come
	reply := c.send(t, sent)
	if !sent.Crash {
		time.Sleep(time.Duration(o.below(600)) * time.Microsecond)
		c.kill(t)
	}
	c.awaitEnd(t)
	o.clerks[i] = hire(t, prefix)
	o.held = slices.DeleteFunc(o.held, func(h held) bool { return h.by == c })

	select {
	case said := <-reply:
		require.Empty(t, said.Err)
		o.enter(t, []*entry{{last, said}})
		return false
	default:
	}
	if last.Settle == nil {
		return o.unknownReserve(t, last)
	}
	return o.unknownSettle(t, last)
}

// A reservation that nobody knows stays taken, if it was made at all.
func (o *office) unknownReserve(t *testing.T, last order) (done bool) {
	t.Helper()
	r, err := o.redis.Peek(t.Context(), o.key)
	require.NoError(t, err)
	if r.Remaining == o.book.free() {
		return false
	}
	o.lost++
	o.book.used += last.Reserve
	require.Equal(t, o.book.capacity-o.book.used, r.Remaining)
	require.Equal(t, last.Reserve, o.enterTwin(t, &entry{order: last}).Reservation.N)
	return true
}

// A settlement of which nobody knows whether it was made is made again.
func (o *office) unknownSettle(t *testing.T, last order) (done bool) {
	t.Helper()
	c := o.clerks[o.below(int64(len(o.clerks)))]
	again := &entry{last, c.await(t, c.send(t, last))}
	taken, open := o.book.open[last.Settle.ID]
	if !open || !again.said.Settled {
		o.enter(t, []*entry{again})
		return false
	}
	o.book = o.book.settle(last.Settle.ID, last.Used-taken)
	require.False(t, o.enterTwin(t, again).Settled)
	return true
}

// exceed settles a reservation, if there is one, by so much that the debt reaches
// its bound.
func (o *office) exceed(t *testing.T) {
	t.Helper()
	if len(o.held) == 0 {
		return
	}
	h, c := o.held[0], o.clerks[o.below(int64(len(o.clerks)))]
	last := order{Algorithm: o.redis.algorithm, Key: o.key, Settle: &h.Reservation, Used: 50}
	o.enter(t, []*entry{{last, c.await(t, c.send(t, last))}})
}

// audit compares what the key has used in Redis, in the twin and in the book.
func (o *office) audit(t *testing.T) {
	t.Helper()
	for _, b := range []Base{o.redis, o.twin} {
		require.Equal(t, o.book.used, usedUnits(t, b, o.key, o.book.capacity), "%s %T", o.redis.algorithm, b)
		require.NoError(t, b.Reset(t.Context(), o.key))
	}
}

// usedUnits is how many units count as used. If that is more than the capacity,
// it gives so many back to see the debt.
func usedUnits(t *testing.T, b Base, key string, capacity int) int {
	t.Helper()
	r, err := b.Peek(t.Context(), key)
	require.NoError(t, err)
	if r.Remaining > 0 {
		return capacity - r.Remaining
	}
	r, err = b.Refund(t.Context(), key, capacity)
	require.NoError(t, err)
	return 2*capacity - r.Remaining
}
