package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A patient is a Primary whose health a test chooses, and which counts how
// often it is asked.
type patient struct {
	Limiter
	asked atomic.Int64
	act   atomic.Pointer[func(ctx context.Context) error] // before it decides; nil: nothing
}

var errSick = errors.New("sick")

func (p *patient) does(act func(ctx context.Context) error) { p.act.Store(&act) }
func (p *patient) fails(err error)                          { p.does(func(context.Context) error { return err }) }
func (p *patient) recovers()                                { p.act.Store(nil) }

// hangs heeds its context and nothing else.
func (p *patient) hangs() {
	p.does(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
}

func (p *patient) examine(ctx context.Context) error {
	p.asked.Add(1)
	if act := p.act.Load(); act != nil {
		return (*act)(ctx)
	}
	return nil
}

func (p *patient) Allow(ctx context.Context, key string) (Result, error) {
	return p.AllowN(ctx, key, 1)
}

func (p *patient) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if err := p.examine(ctx); err != nil {
		return Result{}, err
	}
	return p.Limiter.AllowN(context.WithoutCancel(ctx), key, n) // a late answer is one
}

func (p *patient) Peek(ctx context.Context, key string) (Result, error) {
	if err := p.examine(ctx); err != nil {
		return Result{}, err
	}
	return p.Limiter.Peek(context.WithoutCancel(ctx), key)
}

func (p *patient) Reset(ctx context.Context, key string) error {
	if err := p.examine(ctx); err != nil {
		return err
	}
	return p.Limiter.Reset(context.WithoutCancel(ctx), key)
}

// A history is the changes of state that a Fallback has told.
type history struct {
	mu      sync.Mutex
	changes []string
	causes  []error
}

func (h *history) record(from, to BreakerState, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = append(h.changes, from.String()+" to "+to.String())
	h.causes = append(h.causes, cause)
}

func (h *history) told() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.changes)
}

// newFallback has a patient before a Memory.
func newFallback(tb testing.TB) (*Fallback, *patient, *history) {
	tb.Helper()
	p, h := &patient{Limiter: newMemory(tb, TokenBucket, PerHour(1_000_000))}, new(history)
	return &Fallback{
		Primary:       p,
		Secondary:     newMemory(tb, TokenBucket, PerHour(1_000_000)),
		OnStateChange: h.record,
	}, p, h
}

// decides tells whether Primary has decided, and that there was a decision.
func decides(tb testing.TB, f *Fallback) (byPrimary bool) {
	tb.Helper()
	r, err := f.Allow(tb.Context(), "key")
	require.NoError(tb, err)
	require.True(tb, r.Allowed)
	return !r.Fallback
}

// open makes f fail until its breaker opens.
func open(tb testing.TB, f *Fallback, p *patient) {
	tb.Helper()
	p.fails(errSick)
	for range f.config().failures {
		require.Equal(tb, BreakerClosed, f.State())
		require.False(tb, decides(tb, f))
	}
	require.Equal(tb, BreakerOpen, f.State())
}

// It opens after five failures in a row and not before, asks nobody for a
// cooldown, which doubles with each failed probe, and begins anew after a success.
func TestBreakerByTheClock(t *testing.T) {
	t.Parallel()
	for range 20 { // as a part is by chance
		synctest.Test(t, func(t *testing.T) {
			f, p, h := newFallback(t)
			for range 3 { // a success in between makes a new row
				p.fails(errSick)
				for range 4 {
					require.False(t, decides(t, f))
				}
				p.recovers()
				require.True(t, decides(t, f))
			}
			for range 2 {
				open(t, f, p)
				for _, ms := range []int{500, 1000, 2000, 4000, 5000, 5000} {
					cooldown := time.Duration(ms) * time.Millisecond
					asked := p.asked.Load()
					time.Sleep(cooldown/2 - 1)
					require.False(t, decides(t, f))
					require.Equal(t, asked, p.asked.Load(), "asked within half a cooldown of %v", cooldown)
					time.Sleep(cooldown/2 + 2)
					require.Equal(t, BreakerOpen, f.State())
					require.False(t, decides(t, f))
					require.Equal(t, asked+1, p.asked.Load(), "not asked after a cooldown of %v", cooldown)
				}
				p.recovers()
				time.Sleep(5 * time.Second)
				require.True(t, decides(t, f))
				require.Equal(t, BreakerClosed, f.State())
			}
			once := []string{"closed to open"}
			for range 6 {
				once = append(once, "open to half-open", "half-open to open")
			}
			once = append(once, "open to half-open", "half-open to closed")
			require.Equal(t, append(once, once...), h.told())
			for i, change := range h.told() {
				require.Equal(t, change[len(change)-7:] == "to open", errors.Is(h.causes[i], errSick), change)
			}
		})
	}
}

// The cooldowns differ, so that processes do not come back in step.
func TestBreakerIsNotInStep(t *testing.T) {
	t.Parallel()
	c := breakerConfig{cooldown: time.Second, maxCooldown: time.Second}
	seen := map[time.Duration]bool{}
	for range 1000 {
		p := opened(new(phase), errSick, &c)
		wait := p.until.Sub(p.began)
		require.GreaterOrEqual(t, wait, c.cooldown/2)
		require.LessOrEqual(t, wait, c.cooldown)
		seen[wait/(50*time.Millisecond)] = true
	}
	require.GreaterOrEqual(t, len(seen), 10)
}

// While one call probes, the others stay with Secondary; its success closes.
func TestBreakerProbesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, p, h := newFallback(t)
		open(t, f, p)
		time.Sleep(time.Second)
		asked, probe := p.asked.Load(), make(chan struct{})
		p.does(func(context.Context) error { <-probe; return nil })
		var byPrimary atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if decides(t, f) {
					byPrimary.Add(1)
				}
			})
		}
		synctest.Wait()
		require.Equal(t, BreakerHalfOpen, f.State())
		require.Equal(t, asked+1, p.asked.Load())
		close(probe)
		wg.Wait()
		require.EqualValues(t, 1, byPrimary.Load())
		require.Equal(t, BreakerClosed, f.State())
		require.Equal(t, []string{"closed to open", "open to half-open", "half-open to closed"}, h.told())
	})
}

// However a probe ends without telling anything, the next call probes.
func TestBreakerNeverLatches(t *testing.T) {
	t.Parallel()
	ends := map[string]func(t *testing.T, f *Fallback, p *patient){
		"cancelled": func(t *testing.T, f *Fallback, p *patient) {
			ctx, cancel := context.WithCancel(t.Context())
			p.does(func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() })
			_, err := f.Allow(ctx, "key")
			require.ErrorIs(t, err, context.Canceled)
		},
		"cancelled, and says something else": func(t *testing.T, f *Fallback, p *patient) {
			ctx, cancel := context.WithCancel(t.Context())
			p.does(func(context.Context) error { cancel(); return errSick })
			_, err := f.Allow(ctx, "key")
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, errSick)
		},
		"panicked": func(t *testing.T, f *Fallback, p *patient) {
			p.does(func(context.Context) error { panic("at the disco") })
			require.PanicsWithValue(t, "at the disco", func() { _, _ = f.Allow(t.Context(), "key") })
		},
		"ended its goroutine": func(t *testing.T, f *Fallback, p *patient) {
			p.does(func(context.Context) error { runtime.Goexit(); return nil })
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = f.Allow(t.Context(), "key") })
			wg.Wait()
		},
		"too little time": func(t *testing.T, f *Fallback, p *patient) {
			p.hangs()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			r, err := f.Allow(ctx, "key")
			require.NoError(t, err)
			require.True(t, r.Fallback)
		},
		"a mistake": func(t *testing.T, f *Fallback, p *patient) {
			p.fails(ErrInvalidLimit)
			_, err := f.Allow(t.Context(), "key")
			require.ErrorIs(t, err, ErrInvalidLimit)
		},
		"a peek": func(t *testing.T, f *Fallback, p *patient) {
			p.recovers()
			r, err := f.Peek(t.Context(), "key")
			require.NoError(t, err)
			require.False(t, r.Fallback)
		},
		"unlimited": func(t *testing.T, f *Fallback, p *patient) {
			p.recovers()
			counting := p.Limiter
			defer func() { p.Limiter = counting }()
			for _, l := range []Limit{Unlimited, PerHour(0)} {
				p.Limiter = newMemory(t, TokenBucket, l)
				r, err := f.Allow(t.Context(), "key")
				require.NoError(t, err)
				require.Equal(t, Result{Allowed: r.Allowed, Limit: l, Remaining: r.Remaining, RetryAfter: r.RetryAfter}, r)
			}
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, p, h := newFallback(t)
				open(t, f, p)
				time.Sleep(time.Second)
				for range 3 {
					asked := p.asked.Load()
					end(t, f, p)
					require.Greater(t, p.asked.Load(), asked, "it was no probe")
					require.Equal(t, BreakerHalfOpen, f.State())
				}
				p.recovers()
				require.True(t, decides(t, f))
				require.Equal(t, []string{"closed to open", "open to half-open", "half-open to closed"}, h.told())
			})
		})
	}
}

// A Primary that does not say which limit decided is taken at its word.
func TestBreakerClosesWithoutALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, p, _ := newFallback(t)
		open(t, f, p)
		p.recovers()
		p.Limiter = wordless{p.Limiter}
		time.Sleep(time.Second)
		require.True(t, decides(t, f))
		require.Equal(t, BreakerClosed, f.State())
	})
}

// A wordless limiter says yes or no.
type wordless struct{ Limiter }

func (w wordless) AllowN(ctx context.Context, key string, n int) (Result, error) {
	r, err := w.Limiter.AllowN(ctx, key, n)
	return Result{Allowed: r.Allowed}, err
}

// A probe that never comes back does not keep the others away, and its late
// success closes nothing.
func TestBreakerLosesAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, p, h := newFallback(t)
		open(t, f, p)
		time.Sleep(time.Second)
		release := make(chan struct{})
		p.does(func(context.Context) error { <-release; return nil })
		var lost sync.WaitGroup
		lost.Go(func() { require.True(t, decides(t, f)) })
		synctest.Wait()
		p.fails(errSick)
		asked := p.asked.Load()
		time.Sleep(5*time.Second + 50*time.Millisecond)
		require.False(t, decides(t, f))
		require.Equal(t, BreakerHalfOpen, f.State())
		time.Sleep(time.Millisecond)
		require.False(t, decides(t, f))
		require.Equal(t, BreakerOpen, f.State())
		require.Equal(t, asked, p.asked.Load())

		close(release)
		lost.Wait()
		require.Equal(t, BreakerOpen, f.State())
		p.recovers()
		time.Sleep(time.Second)
		require.True(t, decides(t, f))
		require.Equal(t, []string{
			"closed to open", "open to half-open", "half-open to open", "open to half-open", "half-open to closed",
		}, h.told())
		require.ErrorIs(t, h.causes[2], errProbeLost)
	})
}

// What began before a change does not undo it.
func TestBreakerIgnoresTheLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, p, h := newFallback(t)
		f.Failures = 1
		var late sync.WaitGroup
		begin := func(outcome error) (end func()) {
			release := make(chan struct{})
			p.does(func(context.Context) error { <-release; return outcome })
			late.Go(func() { require.Equal(t, outcome == nil, decides(t, f)) })
			synctest.Wait()
			return func() {
				close(release)
				late.Wait()
			}
		}
		succeed := begin(nil)
		p.fails(errSick)
		require.False(t, decides(t, f))
		require.Equal(t, BreakerOpen, f.State())
		succeed()
		require.Equal(t, BreakerOpen, f.State(), "closed by an old success")

		p.recovers()
		time.Sleep(time.Second)
		require.True(t, decides(t, f))
		fail := begin(errSick)
		p.fails(errSick)
		require.False(t, decides(t, f))
		p.recovers()
		time.Sleep(time.Second)
		require.True(t, decides(t, f))
		fail()
		require.Equal(t, BreakerClosed, f.State(), "opened by an old failure")
		require.Len(t, h.told(), 6)
	})
}

// Changes are told one at a time and in their order, by goroutines that make
// them at the same time, also if the callback calls the limiter or panics.
func TestBreakerTellsInOrder(t *testing.T) {
	t.Parallel()
	p := &patient{Limiter: newMemory(t, TokenBucket, PerHour(1_000_000))}
	var telling, told atomic.Int64
	state := BreakerClosed
	var f *Fallback
	f = &Fallback{
		Primary: p, Secondary: FailOpen,
		Failures: 1, Cooldown: time.Microsecond, MaxCooldown: time.Microsecond,
		OnStateChange: func(from, to BreakerState, cause error) {
			if telling.Add(1) != 1 {
				t.Error("two changes are told at once")
			}
			defer telling.Add(-1)
			if from != state {
				t.Errorf("from %v to %v is told, but the state was %v", from, to, state)
			}
			state = to
			if n := told.Add(1); n%7 == 0 {
				_, _ = f.Allow(t.Context(), "from the callback")
			} else if n%1000 == 0 {
				panic("a callback")
			}
		},
	}
	var calls atomic.Int64
	p.does(func(context.Context) error {
		if calls.Add(1)%3 == 0 {
			return errSick
		}
		return nil
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5000 {
				func() {
					defer func() { _ = recover() }()
					_, err := f.Allow(t.Context(), "key")
					if err != nil {
						t.Error(err)
					}
				}()
			}
		})
	}
	wg.Wait()
	require.Greater(t, told.Load(), int64(1000))

	// A panic leaves what came after it to the next change.
	p.recovers()
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		_, err := f.Allow(ctx, "key")
		if err == nil && f.State() != BreakerClosed {
			err = fmt.Errorf("it is %v", f.State())
		}
		return err
	})
}

func TestBreakerStateString(t *testing.T) {
	t.Parallel()
	require.Equal(t, "closed open half-open BreakerState(7)",
		fmt.Sprint(BreakerClosed, " ", BreakerOpen, " ", BreakerHalfOpen, " ", BreakerState(7)))
	require.Equal(t, BreakerClosed, new(Fallback).State())
}
