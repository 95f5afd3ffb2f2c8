package main

import (
	"time"
)

const (
	binWidth = 100_000 // µs
	binsKept = 600     // a minute
)

// A bin is what became of the units that were asked for in 100 ms.
type bin struct {
	Allowed   int
	Refused   int
	Undecided int
	Passed    int // the most that passed in one period, up to some moment of it
}

// A history is the last minute in bins. Bins are numbered by their time.
type history struct {
	newest int64
	bins   [binsKept]bin
	tally  tally
}

func newHistory(now int64) history { return history{newest: now / binWidth} }

// at is the bin of now, in µs; all before it are complete.
func (h *history) at(now int64, period time.Duration) *bin {
	h.newest = max(h.newest, now/binWidth-binsKept)
	for h.newest < now/binWidth {
		h.newest++
		h.bins[h.newest%binsKept] = bin{Passed: h.tally.within(h.newest*binWidth, period)}
	}
	return &h.bins[h.newest%binsKept]
}

// last is the newest n bins in the order of time, and the number of the first.
func (h *history) last(n int) (first int64, bins [][4]int) {
	first = h.newest - int64(n) + 1
	for i := first; i <= h.newest; i++ {
		b := h.bins[i%binsKept]
		bins = append(bins, [4]int{b.Allowed, b.Refused, b.Undecided, b.Passed})
	}
	return first, bins
}

// A tally counts the units that surely passed within one period. When exactly
// Redis decided is not known, only that it was between begin and end; so a
// unit counts from its begin, and up to the end of the newest. Where the tally
// is over a limit, the limit was exceeded.
type tally struct {
	units []passed
	most  int
}

type passed struct {
	begin int64 // µs
	n     int
}

// add counts n units, decided between begin and end; it returns how many with
// them passed in one period. No end may be before an earlier one.
func (t *tally) add(begin, end int64, n int, period time.Duration) int {
	t.units = append(t.units, passed{begin, n})
	sum := t.within(end, period)
	t.most = max(t.most, sum)
	return sum
}

// within is how many units passed in the period up to end.
func (t *tally) within(end int64, period time.Duration) int {
	sum, kept := 0, t.units[:0]
	for _, u := range t.units {
		if u.begin > end-period.Microseconds() {
			kept = append(kept, u)
			sum += u.n
		}
	}
	t.units = kept
	return sum
}

// forget counts from now on. The most so far stays.
func (t *tally) forget() { t.units = t.units[:0] }
