package ratelimit

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A denyTable keeps a bounded number of denials. The hash of a key names the
// row of slots in which its denial may be; a full row loses the one that ends
// first. Looking up takes no lock, so that a flood on one key does not queue:
// a denial never changes, it is replaced.
type denyTable struct {
	began   time.Time
	seed    maphash.Seed // callers can't choose their rows
	slots   []atomic.Pointer[denial]
	width   int // of a row
	rows    int
	stripes [denyStripes]denyStripe // one for each row, in turn
}

type denyStripe struct {
	mu     sync.Mutex    // held to change a slot
	resets atomic.Uint64 // how many there were
	swept  int           // how many of its rows were looked through in this round
}

const (
	denyRowWidth = 8
	denyStripes  = 64
)

// A denyCall is a call that may be refused, and what was known when it began.
type denyCall struct {
	key    string // as it is kept
	hash   uint64
	row    int
	began  time.Duration
	seen   *denial
	resets uint64
}

func newDenyTable(maxKeys int) *denyTable {
	width := min(maxKeys, denyRowWidth)
	rows := maxKeys / width
	return &denyTable{
		began: time.Now(),
		seed:  maphash.MakeSeed(),
		slots: make([]atomic.Pointer[denial], rows*width),
		width: width,
		rows:  rows,
	}
}

func (t *denyTable) now() time.Duration { return time.Since(t.began) }

func (t *denyTable) begin(key string) denyCall {
	key = memoryName(key)
	hash := maphash.String(t.seed, key)
	row, _ := bits.Mul64(hash, uint64(t.rows))
	call := denyCall{key: key, hash: hash, row: int(row), began: t.now()}
	call.resets = t.stripe(call.row).resets.Load()
	slots := t.row(call.row)
	for i := range slots {
		if d := slots[i].Load(); d.is(hash, key) {
			call.seen = d
			break
		}
	}
	return call
}

func (t *denyTable) row(row int) []atomic.Pointer[denial] {
	return t.slots[row*t.width : (row+1)*t.width]
}

func (t *denyTable) stripe(row int) *denyStripe { return &t.stripes[row%denyStripes] }

// remember keeps r, which refused n units to call. If the key was reset since
// the call began, it may not be true any more.
func (t *denyTable) remember(call denyCall, n int, r Result) {
	s := t.stripe(call.row)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resets.Load() != call.resets {
		return
	}
	now := t.now()
	slot := t.place(call)
	old := slot.Load()
	if old.is(call.hash, call.key) {
		call.key = old.key
	} else {
		old = nil
		call.key = strings.Clone(call.key) // it may be part of a larger text, which must not stay
	}
	if d := newDenial(call, n, r, old, now); d != nil {
		slot.Store(d)
	}
	t.sweep(s, call.row, now)
}

// place is where the denial of call's key is, or is to be.
func (t *denyTable) place(call denyCall) *atomic.Pointer[denial] {
	row := t.row(call.row)
	best, ends := &row[0], Never
	for i := range row {
		d := row[i].Load()
		if d.is(call.hash, call.key) {
			return &row[i]
		}
		if d == nil && ends > 0 {
			best, ends = &row[i], 0
		} else if d != nil && d.ends < ends {
			best, ends = &row[i], d.ends
		}
	}
	return best
}

// sweep frees what has ended in one more row with each denial that comes, so
// that nothing lingers while there are any.
func (t *denyTable) sweep(s *denyStripe, row int, now time.Duration) {
	first := row % denyStripes
	next := first + s.swept*denyStripes
	if next >= t.rows {
		s.swept, next = 0, first
	}
	s.swept++
	slots := t.row(next)
	for i := range slots {
		if d := slots[i].Load(); d != nil && d.ends <= now {
			slots[i].Store(nil)
		}
	}
}

// allowed forgets what call's key was refused before call took units: the waits
// are longer now. What has come since holds as it is.
func (t *denyTable) allowed(call denyCall) {
	if call.seen == nil {
		return
	}
	s := t.stripe(call.row)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := t.place(call); slot.Load() == call.seen {
		slot.Store(nil)
	}
}

// reset forgets what key was refused, by calls in flight too.
func (t *denyTable) reset(key string) {
	call := t.begin(key)
	s := t.stripe(call.row)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets.Add(1)
	if slot := t.place(call); slot.Load().is(call.hash, call.key) {
		slot.Store(nil)
	}
}
