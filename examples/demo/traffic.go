package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirgo/ratelimit"
)

// The kinds of traffic.
const (
	pause    = "pause"
	steady   = "steady"
	random   = "random"
	boundary = "boundary"
)

var modes = []string{pause, steady, random, boundary}

// A traffic sends requests to the lab until it is paused.
type traffic struct {
	lab *lab

	mu      sync.Mutex
	plan    plan
	note    string
	next    int64         // ms, when what the note says happens
	changed chan struct{} // closed when the plan changes
}

type plan struct {
	Mode      string `json:"mode"`
	PerSecond int    `json:"per_second"`
}

type trafficView struct {
	plan
	Note string `json:"note,omitempty"`
	Next int64  `json:"next_ms,omitempty"`
}

func newTraffic(l *lab) *traffic {
	return &traffic{lab: l, plan: plan{pause, 10}, changed: make(chan struct{})}
}

func (t *traffic) view() trafficView {
	t.mu.Lock()
	defer t.mu.Unlock()
	return trafficView{t.plan, t.note, t.next}
}

// set makes p, which was checked, the plan from now on.
func (t *traffic) set(p plan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p == t.plan && p.Mode != boundary {
		return
	}
	t.plan, t.note, t.next = p, "", 0
	close(t.changed)
	t.changed = make(chan struct{})
}

// tell says what is about to happen in so long, of a plan that still holds.
func (t *traffic) tell(changed chan struct{}, note string, in time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if changed == t.changed {
		t.note, t.next = note, t.lab.now()/1000+in.Milliseconds()
	}
}

// finish pauses, unless the plan has changed.
func (t *traffic) finish(changed chan struct{}, note string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if changed == t.changed {
		t.plan.Mode, t.note, t.next = pause, note, 0
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// run sends what is planned until ctx ends. A request is sent when all five
// have decided on the one before: a slow Redis makes for slower traffic.
func (t *traffic) run(ctx context.Context) {
	for ctx.Err() == nil {
		t.mu.Lock()
		p, changed := t.plan, t.changed
		t.mu.Unlock()
		switch p.Mode {
		case steady:
			t.flow(ctx, changed, p.PerSecond, evenly)
		case random:
			t.flow(ctx, changed, p.PerSecond, byChance)
		case boundary:
			t.finish(changed, t.spike(ctx, changed))
		default:
			sleep(ctx, changed, time.Hour)
		}
	}
}

// flow sends requests until the plan changes. The pace says how many come
// together, and when the next ones follow, if one each gap is the mean.
func (t *traffic) flow(ctx context.Context, changed chan struct{}, perSecond int, pace func(gap time.Duration) (int, time.Duration)) {
	next := time.Now()
	for {
		n, gap := pace(time.Second / time.Duration(perSecond))
		t.lab.shoot(ctx, n)
		next = next.Add(gap)
		if now := time.Now(); next.Before(now) {
			next = now // what could not be sent in time is not made up for
		}
		if !sleep(ctx, changed, time.Until(next)) {
			return
		}
	}
}

func evenly(gap time.Duration) (int, time.Duration) { return 1, gap }

// byChance sends mostly one, sometimes a few together, at random distances.
func byChance(gap time.Duration) (int, time.Duration) {
	n := 1
	if rand.IntN(8) == 0 {
		n = 2 + rand.IntN(5)
	}
	fastest := time.Second / time.Duration(bounds["per_second"].Max)
	chance := min(rand.ExpFloat64(), 5)
	return n, max(time.Duration(float64(gap)*chance), fastest) * time.Duration(n)
}

// spike sends as much as the limit just before the end of a fixed window, and
// as much again just after it. It begins with nothing used.
func (t *traffic) spike(ctx context.Context, changed chan struct{}) (note string) {
	const failed = "The spike failed: Redis gives no answers."
	if t.lab.reset(ctx) != nil {
		return failed
	}
	c := *t.lab.config.Load()
	requests := max(1, c.Rate/c.Cost)
	opened := fixedWindow(t.lab.shoot(ctx, 1))
	if opened == nil || opened.err != nil {
		return failed
	}
	end := time.Now().Add(opened.result.ResetAfter)
	lead := min(c.period()/5, 300*time.Millisecond)

	before := time.Until(end) - lead
	t.tell(changed, "One request has begun a window. Just before its end comes the first volley.", before)
	if !sleep(ctx, changed, before) {
		return ""
	}
	t.lab.shoot(ctx, requests-1)

	after := time.Until(end) + 10*time.Millisecond
	t.tell(changed, "The first volley is sent. The second comes just after the boundary.", after)
	if !sleep(ctx, changed, after) {
		return ""
	}
	t.lab.shoot(ctx, requests)
	return "Spike sent: " + count(2*requests, "request") + " around the boundary."
}

func fixedWindow(volleys []volley) *decision {
	for _, v := range volleys {
		if v.Algorithm == ratelimit.FixedWindow {
			return v.Last
		}
	}
	return nil
}

// sleep waits for d; false if ctx ended or the plan changed before.
func sleep(ctx context.Context, changed chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
		return false
	case <-timer.C:
		return true
	}
}
