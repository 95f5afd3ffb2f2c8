package ratelimit

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// maxFlights is how many batches are under way before calls wait for one to
	// come back. A few keep Redis busy while answers are handed out.
	maxFlights = 3

	// maxBatch keeps a script well under a millisecond; minBatch is what a flight
	// may take without regard to the others.
	maxBatch, minBatch = 128, 8

	// patience is how long calls wait for flights that do not come back, as on a
	// connection that has gone silent, before one more takes off.
	patience = 5 * time.Millisecond

	// maxInFlight bounds the goroutines that wait for a client which has not come
	// back when its callers had gone.
	maxInFlight = 1024
)

// A lane decides calls in their order, those of about the same time together.
// While few flights are under way a call takes off at once. Else it waits, and
// the next flight to come back takes what waits by then. No goroutine is left
// when no flight is.
type lane struct {
	decide  func(ctx context.Context, calls []*call) // gives each its answer or error
	flights int                                      // that may be under way before calls wait
	batch   int                                      // the most calls on one

	mu        sync.Mutex
	first     *call // of those that wait
	last      *call
	waiting   int
	aboard    int // calls on flights that count
	counted   int // flights that count
	running   int // all flights
	gathering int // flights that have landed and wait for calls
	watched   *call
	watching  bool // a timer runs, since when watched was the first
}

// A flight is calls that are decided in one round trip.
type flight struct {
	calls  []*call
	ctx    context.Context    //nolint:containedctx // a flight is what has it
	cancel context.CancelFunc // nil for a single call, which has its own context
	gone   int                // callers that have gone
	lost   bool               // it does not count: all have gone, or it is one beyond the others
}

// do decides c and comes back when ctx ends, also if the client does not: a
// client does not heed its context while it reads. Its flight then ends by the
// client's timeouts; left tells that it still uses c.
func (l *lane) do(ctx context.Context, c *call) (left bool, err error) {
	c.ctx, c.lane = ctx, l
	l.mu.Lock()
	free := l.first == nil && l.mayTakeOff()
	if free {
		l.takeOff(c.alone())
	}
	if free && ctx.Done() == nil { // nobody will want to leave
		l.mu.Unlock()
		if next := l.fly(c.flight); next != nil {
			go l.lead(next)
		}
		return false, c.err
	}
	c.done = make(chan struct{})
	if !free {
		l.enqueue(c)
	}
	l.mu.Unlock()
	if free {
		go c.lead()
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if l.leave(c) {
			return true, ctx.Err()
		}
		<-c.done // any moment now
	}
	return false, contextError(ctx, c.err)
}

func (l *lane) mayTakeOff() bool {
	return l.counted < l.flights && l.running < maxInFlight && l.gathering == 0
}

func (l *lane) takeOff(f *flight) {
	l.counted++
	l.running++
	l.aboard += len(f.calls)
}

// lead flies f, and then what waits.
func (l *lane) lead(f *flight) {
	for f != nil {
		f = l.fly(f)
	}
}

// fly decides the calls of a flight and returns the next.
func (l *lane) fly(f *flight) (next *flight) {
	err := errEnded
	defer func() {
		// If a hook of the client panics, that is not on a goroutine of a server
		// that recovers, so it would end the process.
		if p := recover(); p != nil {
			err = fmt.Errorf("the Redis client panicked: %v", p)
		}
		if err != nil {
			for _, c := range f.calls {
				c.err = err
			}
		}
		next = l.land(f)
		if err == errEnded && next != nil { //nolint:errorlint // the very value
			go l.lead(next) // this goroutine ends here
		}
	}()
	l.run(f)
	err = nil
	return nil // the next one, see above
}

// run decides the calls of a flight. Those that surely did not run are tried
// again, a few times, while their callers stay.
func (l *lane) run(f *flight) {
	open := f.calls
	for attempt := 1; ; attempt++ {
		if err := f.ctx.Err(); err != nil { // not all clients look
			for _, c := range open {
				c.err = err
			}
			return
		}
		l.decide(f.ctx, open)
		open = l.again(open)
		if len(open) == 0 || attempt == maxAttempts || !pause(f.ctx, attempt) {
			return
		}
	}
}

func (l *lane) again(calls []*call) (again []*call) {
	for _, c := range calls {
		if c.err != nil && didNotRun(c.err) {
			again = append(again, c)
		}
	}
	if again == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(again, func(c *call) bool { return c.gone })
}

// land tells the callers of f, and returns the flight that follows it.
func (l *lane) land(f *flight) *flight {
	l.mu.Lock()
	calls, lost, cancel := f.calls, f.lost, f.cancel // a single call takes f with it
	if !lost {
		l.aboard -= len(calls)
	}
	for _, c := range calls {
		c.flight, c.landed = nil, !c.gone
	}
	// Callers often come back at once: let them, before the next flight takes off.
	gather := len(calls) > 1 && !lost
	if gather {
		l.gathering++
	}
	l.mu.Unlock()

	if cancel != nil {
		cancel()
	}
	for _, c := range calls {
		if c.landed && c.done != nil {
			close(c.done)
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if gather {
		l.gather()
	}
	var next *flight
	if !lost {
		if next = l.next(); next != nil {
			l.aboard += len(next.calls)
		} else {
			l.counted--
		}
	}
	if next == nil {
		l.running--
	}
	l.fill()
	return next
}

// gather gives way to others as long as that brings calls.
func (l *lane) gather() {
	for range 3 {
		before := l.waiting
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
		if l.waiting == before {
			break
		}
	}
	l.gathering--
}

// fill lets flights take off for calls that wait.
func (l *lane) fill() {
	for l.first != nil && l.mayTakeOff() {
		f := l.next()
		l.takeOff(f)
		go l.lead(f)
	}
}

// next makes a flight of calls that wait, nil if none does. It takes no more
// than its share of all calls, so that the flights are alike.
func (l *lane) next() *flight {
	if l.first == nil {
		return nil
	}
	n := min(max((l.waiting+l.aboard+l.flights-1)/l.flights, minBatch), l.batch, l.waiting)
	m := l.first.q.mode
	if n == 1 || l.first.next == nil || l.first.next.q.mode != m {
		c := l.first
		l.remove(c)
		return c.alone()
	}
	f := &flight{calls: make([]*call, 0, n)}
	for c := l.first; c != nil && c.q.mode == m && len(f.calls) < n; c = l.first {
		l.remove(c)
		c.flight = f
		f.calls = append(f.calls, c)
	}
	f.ctx, f.cancel = contextOf(f.calls)
	return f
}

// contextOf is a context for all calls. One caller's end is not the others', so it
// ends with the last of their deadlines, if each has one: a client can then give
// up its connection.
func contextOf(calls []*call) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(calls[0].ctx)
	var last time.Time
	for _, c := range calls {
		deadline, ok := c.ctx.Deadline()
		if !ok {
			return context.WithCancel(ctx)
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	return context.WithDeadline(ctx, last)
}

func (l *lane) enqueue(c *call) {
	if c.previous = l.last; c.previous != nil {
		c.previous.next = c
	} else {
		l.first = c
	}
	l.last = c
	l.waiting++
	if !l.watching {
		l.watch()
	}
}

func (l *lane) remove(c *call) {
	if c.previous != nil {
		c.previous.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.previous = c.previous
	} else {
		l.last = c.previous
	}
	c.previous, c.next = nil, nil
	l.waiting--
}

// leave takes c off, unless it has landed.
func (l *lane) leave(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := c.flight
	switch {
	case c.landed:
		return false
	case f == nil:
		l.remove(c)
		return true
	}
	c.gone = true
	f.gone++
	if f.gone < len(f.calls) {
		return true
	}
	if f.cancel != nil {
		f.cancel()
	}
	if !f.lost {
		f.lost = true
		l.counted--
		l.aboard -= len(f.calls)
		l.fill()
	}
	return true
}

// watch looks after a while whether the calls that wait now still do.
func (l *lane) watch() {
	l.watching, l.watched = true, l.first
	time.AfterFunc(patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.first != nil && l.first == l.watched && l.running < maxInFlight {
			f := l.next()
			f.lost = true
			l.running++
			go l.lead(f)
		}
		if l.watching, l.watched = false, nil; l.first != nil {
			l.watch()
		}
	})
}

func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first == nil && l.running == 0
}
