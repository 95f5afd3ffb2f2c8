package main

import (
	"math"

	"github.com/weirgo/ratelimit"
)

// A state is what the page shows. All times are in ms.
type state struct {
	Now     int64            `json:"now"`
	Redis   redisView        `json:"redis"`
	Config  config           `json:"config"`
	Traffic trafficView      `json:"traffic"`
	Bounds  map[string]bound `json:"bounds,omitempty"` // only in a full one
	Panels  []*panelView     `json:"panels"`
}

type redisView struct {
	Name     string `json:"name"`
	Embedded bool   `json:"embedded"`
	Up       bool   `json:"up"`
	Error    string `json:"error,omitempty"`
}

type panelView struct {
	Algorithm ratelimit.Algorithm `json:"algorithm"`
	About     *algorithm          `json:"about,omitempty"` // only in a full state
	Capacity  int                 `json:"capacity"`
	Level     float64             `json:"level"`
	Remaining int                 `json:"remaining"`
	Wait      waitView            `json:"wait"`
	Passed    int                 `json:"passed"` // in the last period
	Most      int                 `json:"most"`   // in any period
	Over      string              `json:"over,omitempty"`
	Last      *decision           `json:"last,omitempty"`
	MedianUS  int64               `json:"median_us"`
	Key       *keyView            `json:"key"` // null before the first look
	Edges     []int64             `json:"edges"`
	First     int64               `json:"first"` // the number of the first bin
	Bins      [][4]int            `json:"bins"`  // allowed, refused, undecided units; passed in a period
}

// A waitView is when the next request passes.
type waitView struct {
	Until string  `json:"until"` // now, later, never, or unknown
	MS    float64 `json:"ms"`
}

// full is for who knows nothing yet, brief for who had one in the last second.
const (
	full  = binsKept
	brief = 20
)

// state is what there is to show, with so many bins.
func (d *demo) state(bins int) state {
	l := d.lab
	l.gate.RLock() // one config for all of it
	defer l.gate.RUnlock()
	c := *l.config.Load()
	now := l.now()
	s := state{Now: now / 1000, Config: c, Traffic: d.traffic.view()}
	l.mu.Lock()
	s.Redis = redisView{Name: l.name, Embedded: l.source.embedded, Up: l.down == "", Error: l.down}
	l.mu.Unlock()
	for _, p := range l.panels {
		v := p.view(now, c, bins)
		if bins == full {
			v.About = p.algorithm
		}
		s.Panels = append(s.Panels, v)
	}
	if bins == full {
		s.Bounds = bounds
	}
	return s
}

func (p *panel) view(now int64, c config, bins int) *panelView {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history.at(now, c.period())
	v := &panelView{
		Algorithm: p.ID,
		Capacity:  capacity(p.ID, c),
		Level:     p.level(now, c),
		Remaining: p.seen.result.Remaining,
		Wait:      p.wait(now, c),
		Passed:    p.history.tally.within(now, c.period()),
		Most:      p.history.tally.most,
		Over:      p.over,
		Last:      p.last,
		MedianUS:  p.median(),
		Key:       p.seen.key,
		Edges:     []int64{},
	}
	v.First, v.Bins = p.history.last(bins)
	for _, edge := range p.edges {
		if edge*1000 >= v.First*binWidth {
			v.Edges = append(v.Edges, edge)
		}
	}
	return v
}

// level is what the gauge shows, between two looks at a bucket by reckoning.
func (p *panel) level(now int64, c config) float64 {
	r := p.seen.result
	if r.Limit == (ratelimit.Limit{}) {
		return 0
	}
	passed := float64(now-p.seen.at) / 1000
	back := max(0, millis(r.ResetAfter)-passed) * float64(c.Rate) / float64(c.PeriodMS) // units that are to come back
	most := float64(capacity(p.ID, c))
	switch p.ID {
	case ratelimit.TokenBucket:
		return round(max(0, most-back))
	case ratelimit.LeakyBucket:
		return round(min(most, back))
	}
	return float64(max(0, c.Rate-r.Remaining))
}

func round(f float64) float64 { return math.Round(f*100) / 100 }

// wait is when the next request passes, as far as is known: a refused one was
// told, and a look tells it for one unit.
func (p *panel) wait(now int64, c config) waitView {
	seen := p.seen.result
	if c.Cost > capacity(p.ID, c) {
		return waitView{"never", 0}
	}
	if p.last != nil && p.last.err == nil && !p.last.Allowed && p.last.RetryAfter > 0 {
		if left := float64(p.last.At) + p.last.RetryAfter - float64(now)/1000; left > 0 {
			return waitView{"later", left}
		}
	}
	left := millis(seen.RetryAfter) - float64(now-p.seen.at)/1000
	switch {
	case seen.Remaining >= c.Cost, seen.Limit == ratelimit.Limit{}:
		return waitView{"now", 0}
	case c.Cost > 1:
		return waitView{"unknown", 0}
	case left > 0:
		return waitView{"later", left}
	}
	return waitView{"now", 0}
}
