package ratelimit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A held reservation is one that a process knows of.
type held struct {
	Reservation
	by *clerk
}

// An office is several processes that reserve and settle on one key, with the
// book, and the twin that does what they do.
type office struct {
	*choices
	clerks []*clerk
	redis  *Redis
	twin   *Memory
	key    string
	book   book
	twins  map[string]Reservation // of the twin, by the ID of that in Redis
	held   []held
	lost   int // reservations that were made for a process which crashed before it knew
	calls  int
}

// 1,000 interleavings of processes that reserve, settle, settle again, cancel and
// crash, each at any time: every answer and every state is that of some order, and
// of the twin. Reservations go from process to process; those that a crashed one
// held stay taken.
func TestReservationsOfProcesses(t *testing.T) {
	t.Parallel()
	const interleavings, each = 1000, 40 // one crash in each so many
	prefix := uniqueKey(t)
	o := &office{choices: seeded(t)}
	for range 3 {
		o.clerks = append(o.clerks, hire(t, prefix))
	}
	limiters, twins, open := map[Algorithm]*Redis{}, map[Algorithm]*Memory{}, map[Algorithm]int{}
	for _, a := range allAlgorithms {
		r, err := newRedis(a, sharedRedis(t), bookLimits(a), []Option{WithPrefix(prefix)})
		require.NoError(t, err)
		limiters[a], twins[a] = r, newMemory(t, a, bookLimits(a))
	}
	crashes, done := 0, 0
	for i := range interleavings {
		a := allAlgorithms[i%len(allAlgorithms)]
		o.redis, o.twin, o.key = limiters[a], twins[a], fmt.Sprint("key", i)
		o.book, o.twins, o.held, o.lost = book{capacity: 20, open: map[string]int{}}, map[string]Reservation{}, nil, 0
		crash := -1
		if i%each == i/each%each { // with each algorithm in turn
			crash = int(o.below(5))
		}
		for step := range 6 {
			o.work(t, o.of(1, 1, 2, 3, 5))
			if step == crash {
				crashes++
				if o.crash(t, prefix) {
					done++
				}
			}
		}
		o.exceed(t)
		o.audit(t)
		open[a] += len(o.book.open) + o.lost
	}
	t.Logf("%d calls, %d crashes, %d after the call was made", o.calls, crashes, done)
	require.GreaterOrEqual(t, crashes, 20)
	for a, r := range limiters {
		keys := keysOf(t, r)
		require.Len(t, keys, open[a], "%s: what is not settled is remembered, and nothing else", a)
		require.NoError(t, sharedRedis(t).Unlink(t.Context(), append(keys, "none")...).Err())
	}
}

// order is any order with which no debt reaches its bound: what is used is at most
// twice what was reserved. Then it is seen in which order things were done, or it
// makes no difference.
func (o *office) order() order {
	next := order{Algorithm: o.redis.algorithm, Key: o.key}
	if len(o.held) == 0 || o.below(2) == 0 {
		next.Reserve = int(o.of(1, 2, 3, 5, 5, 8, 20, 21))
		return next
	}
	i := o.below(int64(len(o.held)))
	r := o.held[i].Reservation
	if o.below(4) != 0 { // else it will be settled again
		o.held = slices.Delete(o.held, int(i), int(i)+1)
	}
	next.Settle, next.Used = &r, int(o.of(0, 0, int64(r.N), int64(r.N/2), int64(r.N-1), int64(r.N+1), int64(2*r.N)))
	return next
}

// work lets the processes do some things at once.
func (o *office) work(t *testing.T, things int64) {
	t.Helper()
	var entries []*entry
	var by []*clerk
	var replies []<-chan report
	for range things {
		c := o.clerks[o.below(int64(len(o.clerks)))]
		next := o.order()
		entries, by, replies = append(entries, &entry{order: next}), append(by, c), append(replies, c.send(t, next))
	}
	for i, reply := range replies {
		entries[i].said = by[i].await(t, reply)
		if r := entries[i].said.Reservation; r.N > 0 {
			o.held = append(o.held, held{r, by[i]})
		}
	}
	o.enter(t, entries)
}

// enter does in the book and with the twin what was done in Redis.
func (o *office) enter(t *testing.T, entries []*entry) {
	t.Helper()
	inOrder := o.book.inSomeOrder(entries)
	require.NotNil(t, inOrder, "%s: no order explains %+v after %+v", o.redis.algorithm, entries, o.book)
	for _, e := range inOrder {
		o.calls++
		o.book, _ = o.book.after(e)
		said := o.enterTwin(t, e)
		require.Equal(t, said.Settled, e.said.Settled)
		require.Equal(t, said.Reservation.N, e.said.Reservation.N)
		require.Equal(t, said.Result.Remaining, e.said.Result.Remaining)
		if len(entries) > 1 {
			continue // how deep a debt was on the way depends on the order, and may not show in it
		}
		// A unit comes back in days at least.
		require.InDelta(t, said.Result.RetryAfter, e.said.Result.RetryAfter, float64(time.Minute), "%s: %+v", o.redis.algorithm, e)
		require.InDelta(t, said.Result.ResetAfter, e.said.Result.ResetAfter, float64(time.Minute), "%s: %+v", o.redis.algorithm, e)
	}
}

func (o *office) enterTwin(t *testing.T, e *entry) report {
	t.Helper()
	own := e.order
	if e.Settle != nil {
		twin := o.twins[e.Settle.ID]
		own.Settle = &twin
	}
	said := own.carryOut(o.twin)
	require.Empty(t, said.Err)
	if id := e.said.Reservation.ID; id != "" {
		o.twins[id] = said.Reservation
	}
	return said
}
