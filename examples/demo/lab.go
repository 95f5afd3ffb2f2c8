package main

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgo/ratelimit"
)

const (
	prefix    = "demo"
	patience  = 300 * time.Millisecond // for one decision
	lookAgain = 100 * time.Millisecond // between two looks at the keys
	checkIdle = time.Second            // the same while nobody watches
)

// A lab is the five limiters and what is known of them.
type lab struct {
	source *source
	began  time.Time
	config atomic.Pointer[config]
	panels []*panel

	// gate is held for reading by a decision, and for writing by what must not
	// happen amid one: a new config, a reset.
	gate sync.RWMutex

	mu   sync.Mutex
	name string // of the server
	down string // why Redis gives no answers, "" if it does
}

func newLab(s *source) (*lab, error) {
	l := &lab{source: s, began: time.Now(), name: s.name}
	first := firstConfig
	l.config.Store(&first)

	// Asked at every decision, so that a new config takes effect at once.
	limits := ratelimit.LimitFunc(func(context.Context, string) (ratelimit.Limit, error) {
		return l.config.Load().limit(), nil
	})
	now := l.now()
	for i := range algorithms {
		a := &algorithms[i]
		limiter, err := a.make(s.rdb, limits, ratelimit.WithPrefix(prefix))
		if err != nil {
			return nil, err
		}
		l.panels = append(l.panels, &panel{algorithm: a, limiter: limiter, history: newHistory(now)})
	}
	return l, nil
}

// now is a time in µs that never goes back.
func (l *lab) now() int64 { return l.began.UnixMicro() + time.Since(l.began).Microseconds() }

// setConfig makes c, which was checked, the limit of the next decision.
func (l *lab) setConfig(c config) {
	l.gate.Lock()
	defer l.gate.Unlock()
	former := *l.config.Swap(&c)
	if former != c {
		l.forget()
	}
}

// forget begins anew to count what passes in a period.
func (l *lab) forget() {
	for _, p := range l.panels {
		p.forget()
	}
}

// reset forgets what the key has used.
func (l *lab) reset(ctx context.Context) error {
	l.gate.Lock()
	defer l.gate.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer l.forget()
	key := l.config.Load().Key
	for _, p := range l.panels {
		if err := p.limiter.Reset(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// A volley is what became of requests sent at once to one limiter.
type volley struct {
	Algorithm ratelimit.Algorithm `json:"algorithm"`
	Allowed   int                 `json:"allowed"`
	Refused   int                 `json:"refused"`
	Undecided int                 `json:"undecided"`
	Last      *decision           `json:"last"`
}

// shoot sends n requests to each of the five, all at the same time. A limiter
// that gives no decision is sent no more.
func (l *lab) shoot(ctx context.Context, n int) []volley {
	volleys := make([]volley, len(l.panels))
	var wg sync.WaitGroup
	for i, p := range l.panels {
		wg.Go(func() {
			v := volley{Algorithm: p.ID}
			for v.Allowed+v.Refused < n && v.Undecided == 0 {
				v.Last = l.decide(ctx, p)
				switch {
				case v.Last.err != nil:
					v.Undecided++
				case v.Last.Allowed:
					v.Allowed++
				default:
					v.Refused++
				}
			}
			volleys[i] = v
		})
	}
	wg.Wait()
	return volleys
}

func (l *lab) decide(ctx context.Context, p *panel) *decision {
	l.gate.RLock()
	defer l.gate.RUnlock()
	c := *l.config.Load()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	begin := l.now()
	result, err := p.limiter.AllowN(ctx, c.Key, c.Cost)
	took := l.now() - begin
	return p.record(l.now, c, begin, took, result, err)
}

// watch looks at the keys until ctx ends, seldom while nobody is watching.
func (l *lab) watch(ctx context.Context, watched func() bool) {
	for {
		l.look(ctx)
		for waited := time.Duration(0); waited == 0 || waited < checkIdle && !watched(); waited += lookAgain {
			if !sleep(ctx, nil, lookAgain) {
				return
			}
		}
	}
}

// look asks what each key would be told now, and what Redis keeps for it.
func (l *lab) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.gate.RLock()
	defer l.gate.RUnlock()
	c := *l.config.Load()
	keys := inspect(ctx, l.source.rdb, c.Key)
	failures := make([]error, len(l.panels))
	var wg sync.WaitGroup
	for i, p := range l.panels {
		wg.Go(func() {
			result, err := p.limiter.Peek(ctx, c.Key)
			if err == nil {
				p.see(c, &sight{l.now(), result, &keys[i]})
			}
			failures[i] = err
		})
	}
	wg.Wait()
	l.mark(ctx, cmp.Or(failures...))
}

// mark keeps whether Redis answers. A server that comes back may have
// forgotten what it counted, so the counting here begins anew as well.
func (l *lab) mark(ctx context.Context, failure error) {
	l.mu.Lock()
	wasDown := l.down != ""
	l.mu.Unlock()
	down, name := "", ""
	if failure != nil {
		down = plainly(failure)
	} else if wasDown && !l.source.embedded {
		name = l.source.version(ctx) + " at " + l.source.rdb.Options().Addr
		l.forget()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	if name != "" {
		l.name = name
	}
}
