package ratelimit

import (
	"context"
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A leaseTable keeps a bounded number of keys. It is made like a denyTable, but
// what it keeps changes, under a lock for each key.
type leaseTable struct {
	maxBlock int
	maxAge   time.Duration

	began   time.Time
	seed    maphash.Seed // callers can't choose their rows
	slots   []atomic.Pointer[leaseKey]
	width   int // of a row
	rows    int
	stripes [denyStripes]sync.Mutex // held to change a slot
}

// A leaseKey is what is known of a key here.
type leaseKey struct {
	hash   uint64
	key    string
	block  atomic.Pointer[leaseBlock]
	denial atomic.Pointer[denial]

	busy     chan struct{} // full while somebody holds the key: a lock that a context can end the wait for
	waiting  atomic.Int64  // callers who wait for it and want one unit
	failures atomic.Uint64 // calls that failed for another reason than their context

	// These, and what is to be handed out and refused, change only under the lock.
	gone    bool // the key is not in the table any more
	pace    leasePace
	failure error // the last
}

// A leaseCall is a call, and the key that was there when it began.
type leaseCall struct {
	key   string // as it is kept
	hash  uint64
	row   int
	began time.Duration
	seen  *leaseKey
}

func newLeaseTable(maxKeys int) *leaseTable {
	width := min(maxKeys, denyRowWidth)
	rows := maxKeys / width
	return &leaseTable{
		began: time.Now(),
		seed:  maphash.MakeSeed(),
		slots: make([]atomic.Pointer[leaseKey], rows*width),
		width: width,
		rows:  rows,
	}
}

func (t *leaseTable) now() time.Duration { return time.Since(t.began) }

func (t *leaseTable) begin(key string) leaseCall {
	key = memoryName(key)
	hash := maphash.String(t.seed, key)
	row, _ := bits.Mul64(hash, uint64(t.rows))
	call := leaseCall{key: key, hash: hash, row: int(row), began: t.now()}
	call.seen = t.find(call)
	return call
}

func (t *leaseTable) row(row int) []atomic.Pointer[leaseKey] {
	return t.slots[row*t.width : (row+1)*t.width]
}

func (t *leaseTable) find(call leaseCall) *leaseKey {
	slots := t.row(call.row)
	for i := range slots {
		if k := slots[i].Load(); k != nil && k.hash == call.hash && k.key == call.key {
			return k
		}
	}
	return nil
}

// hold locks call's key, which is made if there is none, and tells how many
// failures it had before. It is nil if there is no room, and no error.
func (t *leaseTable) hold(ctx context.Context, call leaseCall, wanted int64) (k *leaseKey, failures uint64, err error) {
	for {
		if k = t.get(call); k == nil {
			return nil, 0, nil
		}
		failures = k.failures.Load()
		if err := k.lock(ctx, wanted); err != nil {
			return nil, 0, err
		}
		if !k.gone {
			return k, failures, nil
		}
		k.unlock()
	}
}

// get is call's key. A new one takes the room of the one that has least to
// tell; those that somebody holds keep theirs.
func (t *leaseTable) get(call leaseCall) *leaseKey {
	if k := t.find(call); k != nil {
		return k
	}
	mu := &t.stripes[call.row%denyStripes]
	mu.Lock()
	defer mu.Unlock()
	if k := t.find(call); k != nil {
		return k
	}
	slot := t.place(call.row)
	if slot == nil {
		return nil
	}
	if old := slot.Load(); old != nil {
		if !old.tryLock() {
			return nil
		}
		old.drop()
		old.gone = true
		old.unlock()
	}
	k := &leaseKey{
		hash: call.hash,
		key:  strings.Clone(call.key), // it may be part of a larger text, which must not stay
		busy: make(chan struct{}, 1),
	}
	slot.Store(k)
	return k
}

// place is the slot for a new key, nil if there is none.
func (t *leaseTable) place(row int) (best *atomic.Pointer[leaseKey]) {
	slots, ends := t.row(row), Never
	for i := range slots {
		k := slots[i].Load()
		if k == nil {
			return &slots[i]
		}
		if end := k.end(); len(k.busy) == 0 && end < ends {
			best, ends = &slots[i], end
		}
	}
	return best
}

// lock waits for the key until ctx ends. The caller wants so many units if they
// are needed in any case.
func (k *leaseKey) lock(ctx context.Context, wanted int64) error {
	if k.tryLock() {
		return nil
	}
	k.waiting.Add(wanted)
	defer k.waiting.Add(-wanted)
	select {
	case k.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *leaseKey) tryLock() bool {
	select {
	case k.busy <- struct{}{}:
		return true
	default:
		return false
	}
}

func (k *leaseKey) unlock() { <-k.busy }

// end is when there is nothing more to tell of the key.
func (k *leaseKey) end() time.Duration {
	var end time.Duration
	if b := k.block.Load(); b != nil {
		end = b.ends
	}
	if d := k.denial.Load(); d != nil {
		end = max(end, d.ends)
	}
	return end
}
