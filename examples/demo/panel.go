package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirgo/ratelimit"
)

// A panel is one limiter and what happened to it.
type panel struct {
	*algorithm
	limiter ratelimit.Limiter

	mu      sync.Mutex
	history history
	last    *decision
	took    []int64 // µs, of the last decisions
	over    string  // how it came that more than the rate passed in a period
	overAt  int64
	edges   []int64 // ms, where windows begin and end
	seen    sight
}

// A decision is what a limiter said to one request.
type decision struct {
	At         int64    `json:"at"` // ms
	Allowed    bool     `json:"allowed"`
	Error      string   `json:"error,omitempty"`
	Remaining  int      `json:"remaining"`
	RetryAfter float64  `json:"retry_after_ms"` // -1: never
	ResetAfter float64  `json:"reset_after_ms"`
	TookUS     int64    `json:"took_us"`
	Headers    []header `json:"headers"`
	Story      string   `json:"story"`

	err    error
	result ratelimit.Result
}

// A sight is what a look at the key showed.
type sight struct {
	at     int64 // µs
	result ratelimit.Result
	key    *keyView
}

const (
	tookKept  = 51
	edgesKept = 256
	overShown = 15_000_000 // µs
)

// record keeps a decision that began at begin and took so long, both in µs.
func (p *panel) record(now func() int64, c config, begin, took int64, r ratelimit.Result, err error) *decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	end := now() // in the order of the records, whoever was first
	d := &decision{At: end / 1000, TookUS: took, err: err, result: r}
	p.last = d
	bin := p.history.at(end, c.period())
	if err != nil {
		d.Error = plainly(err)
		d.Story = "No decision: " + d.Error + "."
		bin.Undecided += c.Cost
		p.history.tally.forget() // Redis may come back without memory
		return d
	}
	d.Allowed, d.Remaining = r.Allowed, r.Remaining
	d.RetryAfter, d.ResetAfter = millis(r.RetryAfter), millis(r.ResetAfter)
	d.Headers = headers(r)
	d.Story = story(p.ID, c, r)
	p.took = append(p.took, took)
	if len(p.took) > tookKept {
		p.took = slices.Delete(p.took, 0, 1)
	}
	if p.ID == ratelimit.FixedWindow {
		p.edge(end/1000, r, c)
	}
	if !r.Allowed {
		bin.Refused += c.Cost
		return d
	}
	bin.Allowed += c.Cost
	passed := p.history.tally.add(begin, end, c.Cost, c.period())
	bin.Passed = max(bin.Passed, passed)
	switch {
	case passed > c.Rate && passed == p.history.tally.most:
		p.over, p.overAt = surplus(p.ID, c, passed), end
	case passed <= c.Rate && end-p.overAt > overShown:
		p.over = ""
	}
	return d
}

// edge keeps the end of the window that decided, and its begin if this is it.
func (p *panel) edge(now int64, r ratelimit.Result, c config) {
	if r.Allowed && r.Remaining == c.Rate-c.Cost {
		p.edges = append(p.edges, now)
	}
	end := now + r.ResetAfter.Milliseconds()
	if n := len(p.edges); r.ResetAfter > 0 && (n == 0 || end-p.edges[n-1] > 30) {
		p.edges = append(p.edges, end)
	}
	if len(p.edges) > edgesKept {
		p.edges = slices.Delete(p.edges, 0, len(p.edges)-edgesKept)
	}
}

// see keeps what a look at the key showed.
func (p *panel) see(c config, s *sight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = *s
	p.history.at(s.at, c.period())
}

// forget begins anew to count what passes in a period.
func (p *panel) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history.tally.forget()
	p.history.tally.most = 0
	p.over = ""
	p.last = nil
	now := p.seen.at / 1000
	p.edges = slices.DeleteFunc(p.edges, func(edge int64) bool { return edge > now })
}

func (p *panel) median() int64 {
	if len(p.took) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(p.took))[len(p.took)/2]
}

// millis is d in ms, to the µs; -1 for Never.
func millis(d time.Duration) float64 {
	if d == ratelimit.Never {
		return -1
	}
	return float64(d.Microseconds()) / 1000
}

// plainly is why there is no decision.
func plainly(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "Redis does not answer within " + patience.String()
	}
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(err) {
		err = cause
		if strings.HasPrefix(err.Error(), "dial ") {
			break
		}
	}
	return err.Error()
}
