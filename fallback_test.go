package ratelimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// fallbacks are Fallbacks before a Memory with that limit: in each state, and
// with each kind of Primary. The named ones decide by Secondary.
func fallbacks(t *testing.T, a Algorithm, limits Limits) (fallbacks map[string]*Fallback, secondary []string) {
	t.Helper()
	r, err := newRedis(a, sharedRedis(t), limits, []Option{WithPrefix(uniqueKey(t))})
	require.NoError(t, err)
	down, err := newRedis(a, newClient(t, &redis.Options{Addr: closedPort(t), MaxRetries: -1}), limits, nil)
	require.NoError(t, err)
	sick := &patient{Limiter: FailOpen}
	sick.fails(errSick)
	over := func(primary Limiter) *Fallback {
		return &Fallback{Primary: primary, Secondary: newMemory(t, a, limits), Timeout: 10 * time.Second}
	}
	f := map[string]*Fallback{
		"over Redis":  over(r),
		"over Memory": over(newMemory(t, a, limits)),
		"over none":   over(sick),
		"nested":      over(&Fallback{Primary: sick, Secondary: newMemory(t, a, limits)}),
		"Redis down":  {Primary: down, Secondary: newMemory(t, a, limits), Timeout: 5 * time.Millisecond},
		"open":        {Primary: sick, Secondary: newMemory(t, a, limits), Failures: 1, Cooldown: time.Hour},
	}
	_, _ = f["open"].Allow(t.Context(), "another key")
	require.Equal(t, BreakerOpen, f["open"].State())
	return f, []string{"over none", "nested", "Redis down", "open"}
}

// A Fallback keeps the contract of a Limiter, whoever decides.
func TestFallbackContract(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<10)
	keys := []string{"a", "b", "{}", "}", " ", "\x00", "a{b}c", "é", "\xff", long, long + "y"}
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			all, bySecondary := fallbacks(t, a, PerHour(2).WithBurst(2))
			for name, f := range all {
				requireBadCalls(t, f)
				for _, key := range keys {
					for left := 2; left >= 0; left-- {
						r, err := f.Peek(t.Context(), key)
						require.NoError(t, err)
						require.Equal(t, left, r.Remaining, "%s: %.80q shares with another key, or a peek took", name, key)
						require.Equal(t, slices.Contains(bySecondary, name), r.Fallback, name)
						r, err = f.Allow(t.Context(), key)
						require.NoError(t, err)
						require.Equal(t, left > 0, r.Allowed, name)
						require.Equal(t, slices.Contains(bySecondary, name), r.Fallback, name)
					}
				}
				r, err := f.AllowN(t.Context(), "many", 3)
				require.NoError(t, err)
				require.Equal(t, Never, r.RetryAfter)
				if name == "Redis down" || name == "over none" || name == "open" {
					continue // a Reset of half is an error: see TestFallbackReset
				}
				for _, key := range keys {
					if err := f.Reset(t.Context(), key); name == "nested" {
						require.ErrorIs(t, err, errSick)
					} else {
						require.NoError(t, err)
					}
					r, err := f.AllowN(t.Context(), key, 2)
					require.NoError(t, err)
					require.True(t, r.Allowed, "%s: %.80q was not reset", name, key)
				}
			}
		})
	}
}

func TestFallbackChecksItsFields(t *testing.T) {
	t.Parallel()
	ok := newMemory(t, TokenBucket, PerHour(5))
	for want, f := range map[string]*Fallback{
		"Fallback is nil":           nil,
		"Primary is nil":            {Secondary: ok},
		"Timeout is -1ns":           {Primary: ok, Secondary: ok, Timeout: -1},
		"Failures is -1, it must":   {Primary: ok, Secondary: ok, Failures: -1},
		"Cooldown is -1s":           {Primary: ok, Secondary: ok, Cooldown: -time.Second},
		"MaxCooldown is -2ns":       {Primary: ok, Secondary: ok, MaxCooldown: -2},
		"at least the Cooldown":     {Primary: ok, Secondary: ok, Cooldown: 2, MaxCooldown: 1},
		"not made by its construct": {Primary: new(Redis), Secondary: FailOpen},
	} {
		for range 10 { // also where it would count as a failure
			_, err := f.Allow(t.Context(), "key")
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "ratelimit: ")
			_, err = f.Peek(t.Context(), "key")
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, f.Reset(t.Context(), "key"), want)
		}
		// As it does where it is another's Primary.
		_, err := (&Fallback{Primary: f, Secondary: FailOpen}).Allow(t.Context(), "key")
		require.ErrorContains(t, err, want)
	}
}

func TestFallbackDefaults(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct{ given, want [3]time.Duration }{
		{[3]time.Duration{}, [3]time.Duration{50 * ms, 500 * ms, 5000 * ms}},
		{[3]time.Duration{0, 10_000 * ms, 0}, [3]time.Duration{50 * ms, 10_000 * ms, 10_000 * ms}},
		{[3]time.Duration{0, 0, 100 * ms}, [3]time.Duration{50 * ms, 100 * ms, 100 * ms}},
		{[3]time.Duration{1, 2, 3}, [3]time.Duration{1, 2, 3}},
	} {
		f := &Fallback{Primary: FailOpen, Timeout: c.given[0], Cooldown: c.given[1], MaxCooldown: c.given[2]}
		require.NoError(t, f.check())
		got := f.config()
		require.Equal(t, c.want, [3]time.Duration{got.timeout, got.cooldown, got.maxCooldown})
		require.Equal(t, 5, got.failures)
	}
}

// Primary gets Timeout, at most half of what the caller has, and Secondary
// answers at once when that is over.
func TestFallbackSharesTheTime(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct{ timeout, budget, want time.Duration }{
		{0, 0, 50 * ms},
		{0, 1000 * ms, 50 * ms},
		{0, 60 * ms, 30 * ms},
		{0, 2 * ms, 1 * ms},
		{200 * ms, 0, 200 * ms},
		{200 * ms, 300 * ms, 150 * ms},
		{5 * ms, 60 * ms, 5 * ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, p, _ := newFallback(t)
			f.Timeout = c.timeout
			p.hangs()
			ctx := t.Context()
			if c.budget != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.budget)
				defer cancel()
			}
			began := time.Now()
			r, err := f.Allow(ctx, "key")
			require.NoError(t, err)
			require.True(t, r.Fallback)
			require.Equal(t, c.want, time.Since(began), "%+v", c)
		})
	}
}

// What is no failure comes back as it is, and is not counted however often.
func TestFallbackIsNotForMistakes(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{ErrInvalidN, ErrInvalidKey, &callError{TokenBucket, "key", ErrInvalidLimit}} {
		f, p, _ := newFallback(t)
		p.fails(cause)
		for range 20 {
			_, err := f.Allow(t.Context(), "key")
			require.Equal(t, cause, err)
		}
		require.Equal(t, BreakerClosed, f.State())
	}
}

// The end of the caller's context is the caller's.
func TestFallbackIsNotForCallersWhoLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, p, _ := newFallback(t)
		f.Timeout = time.Second
		p.hangs()
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			r, err := f.Allow(ctx, "key")
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, r)

			short, cancelShort := context.WithTimeout(t.Context(), time.Millisecond)
			r, err = f.Allow(short, "key") // has time for a decision, but tells nothing about Primary
			cancelShort()
			require.NoError(t, err)
			require.True(t, r.Fallback)
		}
		require.Equal(t, BreakerClosed, f.State())

		// A Primary that had its time, and does not heed its context, has failed
		// also if the caller's time is over, too.
		p.does(func(context.Context) error { time.Sleep(3 * time.Second); return errSick })
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := f.Allow(ctx, "key")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, errSick)
		}
		require.Equal(t, BreakerOpen, f.State())
	})
}

// A slow success is a success: it is the decision, and it ends a row of failures.
func TestFallbackTakesASlowSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, p, _ := newFallback(t)
		for range 20 {
			p.fails(errSick)
			for range 4 {
				require.False(t, decides(t, f))
			}
			p.does(func(context.Context) error { time.Sleep(time.Minute); return nil })
			require.True(t, decides(t, f))
		}
		require.Equal(t, BreakerClosed, f.State())
	})
}

// Peeks that succeed do not hide that nothing can be written.
func TestFallbackPeeksProveNothing(t *testing.T) {
	t.Parallel()
	f, p, _ := newFallback(t)
	for range 5 {
		p.fails(errSick)
		require.False(t, decides(t, f))
		p.recovers()
		_, err := f.Peek(t.Context(), "key")
		require.NoError(t, err)
	}
	require.Equal(t, BreakerOpen, f.State())

	f, p, _ = newFallback(t)
	p.fails(errSick)
	for range 5 {
		_, err := f.Peek(t.Context(), "key")
		require.NoError(t, err)
	}
	require.Equal(t, BreakerOpen, f.State(), "a Peek that fails is a failure")
}

// The callback is told of each decision by Secondary, with the key and why.
func TestFallbackTells(t *testing.T) {
	t.Parallel()
	type told struct {
		key   string
		cause error
	}
	var calls []told
	f, p, _ := newFallback(t)
	type ctxKey struct{}
	f.OnFallback = func(ctx context.Context, key string, cause error) {
		require.Equal(t, "mine", ctx.Value(ctxKey{}))
		calls = append(calls, told{key, cause})
	}
	ctx := context.WithValue(t.Context(), ctxKey{}, "mine")
	p.fails(&callError{TokenBucket, "secret", errSick})
	for i := range 10 {
		_, err := f.Allow(ctx, strconv.Itoa(i))
		require.NoError(t, err)
	}
	require.Len(t, calls, 10)
	for i, call := range calls {
		require.Equal(t, strconv.Itoa(i), call.key)
		require.ErrorIs(t, call.cause, errSick)
		require.Equal(t, i < 5, strings.Contains(call.cause.Error(), "secret"), "another's key: %v", call.cause)
	}
	require.EqualValues(t, 5, p.asked.Load())

	_, err := f.AllowN(ctx, "key", 0)
	require.ErrorIs(t, err, ErrInvalidN)
	require.Len(t, calls, 10, "there was no decision")
}

// Without a Secondary the error of Primary comes back, and at once while it is
// left alone. Where both fail the error is both.
func TestFallbackWithoutADecision(t *testing.T) {
	t.Parallel()
	f, p, _ := newFallback(t)
	f.Secondary = nil
	p.fails(errSick)
	for i := range 10 {
		r, err := f.Allow(t.Context(), "key")
		require.ErrorIs(t, err, errSick)
		require.Equal(t, i < 5, err.Error() == errSick.Error(), "%v", err)
		require.Zero(t, r)
	}
	require.EqualValues(t, 5, p.asked.Load())
	requireBadCalls(t, f)

	f, p, _ = newFallback(t)
	other, errOther := &patient{Limiter: FailOpen}, errors.New("other")
	other.fails(errOther)
	f.Secondary = other
	f.OnFallback = func(context.Context, string, error) { t.Error("there was no decision") }
	p.fails(errSick)
	for range 10 {
		r, err := f.Allow(t.Context(), "key")
		require.ErrorIs(t, err, errSick)
		require.ErrorIs(t, err, errOther)
		require.Zero(t, r)
	}
	require.EqualValues(t, 10, other.asked.Load())
}

// A Reset reaches both, in every state, within Timeout.
func TestFallbackReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, p, _ := newFallback(t)
		p.Limiter, f.Secondary = newMemory(t, TokenBucket, PerDay(5)), newMemory(t, TokenBucket, PerDay(5))
		used := func(l Limiter) bool {
			r, err := l.Peek(t.Context(), "key")
			require.NoError(t, err)
			return r.ResetAfter > 0
		}
		for _, state := range []BreakerState{BreakerClosed, BreakerOpen} {
			require.Equal(t, state, f.State())
			for _, l := range []Limiter{p.Limiter, f.Secondary} {
				_, err := l.Allow(t.Context(), "key")
				require.NoError(t, err)
			}
			p.recovers()
			require.NoError(t, f.Reset(t.Context(), "key"))
			require.False(t, used(p.Limiter))
			require.False(t, used(f.Secondary))

			p.hangs()
			_, err := f.Secondary.Allow(t.Context(), "key")
			require.NoError(t, err)
			began := time.Now()
			require.ErrorIs(t, f.Reset(t.Context(), "key"), context.DeadlineExceeded)
			require.Equal(t, 50*time.Millisecond, time.Since(began))
			require.False(t, used(f.Secondary))

			if state == BreakerClosed {
				require.NoError(t, f.Secondary.Reset(t.Context(), "key"))
				open(t, f, p)
				require.NoError(t, f.Secondary.Reset(t.Context(), "key"))
			}
		}
		p.fails(errSick)
		other, errOther := &patient{Limiter: FailOpen}, errors.New("other")
		other.fails(errOther)
		f.Secondary = other
		require.ErrorIs(t, f.Reset(t.Context(), "key"), errSick)
		require.ErrorIs(t, f.Reset(t.Context(), "key"), errOther)
		f.Secondary = nil
		require.ErrorIs(t, f.Reset(t.Context(), "key"), errSick)
	})
}

// Under many callers with a Primary that comes and goes each call gets a
// decision, and in the end it is Primary's.
func TestFallbackWithAFlappingPrimary(t *testing.T) {
	t.Parallel()
	f, p, h := newFallback(t)
	f.Timeout, f.Cooldown, f.MaxCooldown = time.Second, time.Millisecond, 4*time.Millisecond
	var told atomic.Int64
	f.OnFallback = func(context.Context, string, error) { told.Add(1) }
	stop := make(chan struct{})
	var flapper, callers sync.WaitGroup
	flapper.Go(func() {
		for {
			for _, act := range []func(){p.recovers, func() { p.fails(errSick) }} {
				act()
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(1+rand.IntN(10)) * time.Millisecond):
				}
			}
		}
	})
	var byPrimary, bySecondary atomic.Int64
	for i := range 64 {
		callers.Go(func() {
			for began := time.Now(); time.Since(began) < time.Second; {
				call := []func(context.Context, string) (Result, error){f.Allow, f.Allow, f.Allow, f.Peek}[rand.IntN(4)]
				r, err := call(t.Context(), strconv.Itoa(i))
				switch {
				case err != nil || !r.Allowed:
					t.Errorf("no decision: %+v, %v", r, err)
					return
				case r.Fallback:
					bySecondary.Add(1)
				default:
					byPrimary.Add(1)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	flapper.Wait()
	require.NotZero(t, byPrimary.Load())
	require.NotZero(t, bySecondary.Load())
	require.Equal(t, bySecondary.Load(), told.Load())
	require.NotEmpty(t, h.told())
	p.recovers()
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		r, err := f.Allow(ctx, "key")
		if err == nil && (r.Fallback || f.State() != BreakerClosed) {
			err = errors.New("not back on Primary")
		}
		return err
	})
	state := BreakerClosed.String()
	for _, change := range h.told() {
		require.True(t, strings.HasPrefix(change, state+" to "), "%q follows %q", change, state)
		state = strings.TrimPrefix(change, state+" to ")
	}
	require.Equal(t, BreakerClosed.String(), state)
}

// A Memory to fall back on keeps its bound, whatever keys come.
func TestFallbackIsBounded(t *testing.T) {
	t.Parallel()
	f, p, _ := newFallback(t)
	const most = 1000
	m := newMemory(t, TokenBucket, PerHour(1), WithMaxKeys(most))
	f.Secondary = m
	p.fails(errSick)
	for i := range 100 * most {
		r, err := f.Allow(t.Context(), strconv.Itoa(i))
		require.NoError(t, err)
		require.True(t, r.Fallback)
	}
	require.Equal(t, most, m.Len())
}

// A decision while Primary is left alone allocates nothing of its own.
func TestFallbackAllocatesNothingWhileOpen(t *testing.T) {
	f, p, _ := newFallback(t)
	f.Cooldown = time.Hour
	f.OnFallback = func(context.Context, string, error) {}
	open(t, f, p)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, secondary := range []Limiter{f.Secondary, FailOpen, FailClosed, nil} {
		f.Secondary = secondary
		require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = f.Allow(ctx, "key") }), "%v", secondary)
	}
}

// Nor does it cost a microsecond: the best of five, as the machine may be busy.
func TestFallbackCostsLittleWhileOpen(t *testing.T) {
	f, p, _ := newFallback(t)
	f.Cooldown = time.Hour
	open(t, f, p)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	const calls = 20_000
	cost := func(l Limiter) time.Duration {
		began := time.Now()
		for range calls {
			_, _ = l.Allow(ctx, "key")
		}
		return time.Since(began) / calls
	}
	best := time.Hour
	for range 5 {
		best = min(best, cost(f)-cost(f.Secondary))
	}
	bound := time.Microsecond
	if raceEnabled {
		bound *= 10
	}
	require.Less(t, best, bound)
	t.Logf("%v more than Secondary", best)
}

func benchmarkParallel(b *testing.B, l Limiter) {
	b.Helper()
	b.ReportAllocs()
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = l.Allow(ctx, "key")
		}
	})
}

func benchmarkFallback(b *testing.B, isOpen bool) {
	b.Helper()
	f, p, _ := newFallback(b)
	f.Cooldown = time.Hour
	if isOpen {
		open(b, f, p)
	} else {
		f.Primary = p.Limiter
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = f.Allow(ctx, "key")
		}
	})
	b.Run("parallel", func(b *testing.B) { benchmarkParallel(b, f) })
	b.Run("memory alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = f.Secondary.Allow(ctx, "key")
		}
	})
	b.Run("memory parallel", func(b *testing.B) { benchmarkParallel(b, f.Secondary) })
}

// What a Fallback adds to its Memory while Primary is left alone.
func BenchmarkFallbackOpen(b *testing.B) { benchmarkFallback(b, true) }

// And what it adds to a Primary that is well.
func BenchmarkFallbackClosed(b *testing.B) { benchmarkFallback(b, false) }
