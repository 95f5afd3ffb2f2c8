package ratelimit

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A refusal from before a Reset is not remembered after it, whenever it comes.
func TestDenyCacheResetDuringACall(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} { // the call comes while the Reset is on its way
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, TokenBucket, PerHour(1))
			answer, reset := make(chan struct{}), make(chan struct{})
			var holding atomic.Bool
			limiter := &asked{Limiter: m}
			limiter.after = func(call string) {
				if call == "allow" && holding.Load() {
					<-answer
				}
			}
			limiter.before = func(call string) {
				if call == "reset" {
					<-reset
				}
			}
			c := &DenyCache{Limiter: limiter}
			_, err := m.Allow(t.Context(), "key")
			require.NoError(t, err)

			holding.Store(true)
			refused := make(chan Result, 1)
			call := func() {
				r, _ := c.Allow(t.Context(), "key")
				refused <- r
			}
			done := make(chan error, 1)
			if !late {
				go call()
				synctest.Wait()
			}
			go func() { done <- c.Reset(t.Context(), "key") }()
			synctest.Wait()
			if late {
				go call()
				synctest.Wait()
			}
			close(reset)
			require.NoError(t, <-done)
			holding.Store(false)
			close(answer)
			require.Positive(t, (<-refused).RetryAfter)
			r, err := c.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.True(t, r.Allowed, "a refusal from before the Reset was remembered")
		})
	}
}

// A Reset that fails forgets here nevertheless, for it may have been done.
func TestDenyCacheResetFails(t *testing.T) {
	t.Parallel()
	limiter := &asked{Limiter: refusing(time.Hour)}
	c := &DenyCache{Limiter: limiter}
	for i := range int64(3) {
		_, err := c.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, i+1, limiter.calls.Load())
		ctx, cancel := context.WithCancel(t.Context())
		limiter.after = func(string) { cancel() }
		limiter.Limiter = resetFails{refusing(time.Hour)}
		require.ErrorIs(t, c.Reset(ctx, "key"), errors.ErrUnsupported)
		limiter.after = nil
	}
}

type resetFails struct{ alike }

func (resetFails) Reset(context.Context, string) error { return errors.ErrUnsupported }

// Never over the limit, and after each Reset exactly so much again: a refusal
// that outlived its Reset would refuse for an hour.
func TestDenyCacheUnderConcurrency(t *testing.T) {
	t.Parallel()
	const rounds = 10
	eachAlgorithm(t, PerHour(5).WithBurst(5), func(t *testing.T, r *Redis) {
		for name, l := range map[string]Limiter{
			"redis":  r,
			"memory": newMemory(t, r.algorithm, PerHour(5).WithBurst(5)),
		} {
			c := &DenyCache{Limiter: l, MaxKeys: 3}
			ctx, stop := context.WithCancel(t.Context())
			var allowed, refused atomic.Int64
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for ctx.Err() == nil {
						switch r, err := c.Allow(ctx, "key"); {
						case err != nil:
						case r.Allowed:
							allowed.Add(1)
						default:
							refused.Add(1)
							_, _ = c.AllowN(ctx, "other "+strconv.Itoa(i), 6)
						}
					}
				})
			}
			for round := range int64(rounds) {
				eventually(t, 20*time.Second, func(context.Context) error {
					if n := allowed.Load(); n != 5*(round+1) {
						return errors.New("allowed: " + strconv.FormatInt(n, 10))
					}
					return nil
				})
				if round < rounds-1 {
					require.NoError(t, c.Reset(t.Context(), "key"))
				}
			}
			stop()
			wg.Wait()
			require.EqualValues(t, 5*rounds, allowed.Load(), name)
			require.Positive(t, refused.Load())
		}
	})
}

// A flood on a refused key sends Redis nothing at all.
func TestDenyCacheSparesRedis(t *testing.T) {
	t.Parallel()
	rdb := startServer(t).Client(t)
	for _, a := range allAlgorithms {
		l, err := newRedis(a, rdb, PerHour(1), nil)
		require.NoError(t, err)
		c := &DenyCache{Limiter: l}
		for range 2 {
			_, err := c.Allow(t.Context(), "key")
			require.NoError(t, err)
		}
		before := commandCalls(t, rdb)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for n := range 1000 {
					r, err := c.AllowN(t.Context(), "key", n+1)
					if err == nil && n == 0 {
						r, err = c.Peek(t.Context(), "key")
					}
					if err != nil || r.Allowed || r.RetryAfter < 50*time.Minute {
						t.Errorf("%+v, %v", r, err)
					}
				}
			})
		}
		wg.Wait()
		after := commandCalls(t, rdb)
		delete(before, "info")
		delete(after, "info")
		require.Equal(t, before, after, a)
		require.NotEmpty(t, after)
	}
}
