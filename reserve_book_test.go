package ratelimit

import (
	"maps"
	"slices"
)

// A book is what one key has used, by plain arithmetic.
type book struct {
	used, capacity int
	open           map[string]int // reservations that are not settled
}

// after is the book after an order that was answered so, if it can be.
func (b book) after(e *entry) (book, bool) {
	if e.Settle == nil {
		granted := 0
		if e.Reserve <= b.capacity-b.used {
			granted = e.Reserve
			b.open = maps.Clone(b.open)
			b.open[e.said.Reservation.ID] = granted
		}
		b.used += granted
		return b, e.said.Reservation.N == granted && e.said.Result.Allowed == (granted > 0) && e.said.Result.Remaining == b.free()
	}
	taken, open := b.open[e.Settle.ID]
	if !open {
		return b, e.said.Settled
	}
	b = b.settle(e.Settle.ID, e.Used-taken)
	return b, !e.said.Settled && e.said.Result.Remaining == b.free() && e.said.Result.Allowed == (b.free() > 0)
}

func (b book) settle(id string, more int) book {
	b.used += min(more, max(2*b.capacity-b.used, 0))
	b.open = maps.Clone(b.open)
	delete(b.open, id)
	return b
}

func (b book) free() int { return max(b.capacity-b.used, 0) }

// inSomeOrder finds an order in which entries made at once can have been made.
func (b book) inSomeOrder(entries []*entry) []*entry {
	for i, e := range entries {
		after, ok := b.after(e)
		if !ok {
			continue
		}
		if len(entries) == 1 {
			return entries
		}
		if rest := after.inSomeOrder(slices.Delete(slices.Clone(entries), i, i+1)); rest != nil {
			return append([]*entry{e}, rest...)
		}
	}
	return nil
}

// An entry is an order and its report.
type entry struct {
	order
	said report
}
