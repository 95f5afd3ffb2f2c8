package ratelimit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A presser calls one limiter in Redis with one key, without rest, and after each
// call a Memory with the same limit, whose clock nobody steps: what Redis
// admits beyond that, it admits because of a step.
type presser struct {
	redis  *Redis
	memory *Memory
	full   time.Duration // the most that a call may have to wait

	stop context.CancelFunc
	wg   sync.WaitGroup

	mu        sync.Mutex
	admitted  int // by Redis
	unstepped int // by Memory
	surplus   int // the most by which Redis was ahead
	refused   int
	last      time.Time     // when Redis last admitted a call, or its clock was stepped
	wait      time.Duration // the longest since then that a call was refused after
	longest   time.Duration // the longest RetryAfter
	err       error         // the first call that was wrong
}

const crowdCallers = 4

// newCrowd starts the callers of a limiter that has just been made.
func newCrowd(t *testing.T, rdb *redis.Client, a Algorithm, l Limit, full time.Duration) *presser {
	t.Helper()
	r, err := newRedis(a, rdb, l, []Option{WithPrefix("pressed")})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	c := &presser{redis: r, memory: newMemory(t, a, l), full: full, stop: stop, last: time.Now()}
	for range crowdCallers {
		c.wg.Go(func() {
			for ctx.Err() == nil {
				c.call(t.Context())
				<-time.After(10 * time.Millisecond) // 400 calls a second are presses enough
			}
		})
	}
	t.Cleanup(c.end)
	return c
}

func (c *presser) call(ctx context.Context) {
	peek, err := c.redis.Peek(ctx, "key")
	c.check(peek, err)
	began := time.Now()
	result, err := c.redis.Allow(ctx, "key")
	c.check(result, err)
	c.count(began, result.Allowed)
	result, err = c.memory.Allow(ctx, "key")
	c.check(result, err)
	if result.Allowed {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unstepped++
	}
}

func (c *presser) check(r Result, err error) {
	if err == nil && (r.RetryAfter > c.full || r.ResetAfter > c.full) {
		err = fmt.Errorf("%+v tells to wait longer than the time to full, %v", r, c.full)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, r.RetryAfter)
	if c.err == nil {
		c.err = err
	}
}

func (c *presser) count(began time.Time, allowed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !allowed {
		c.refused++
		c.wait = max(c.wait, began.Sub(c.last))
		return
	}
	c.last = time.Now()
	c.admitted++
	c.surplus = max(c.surplus, c.admitted-c.unstepped)
}

func (c *presser) refusals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// awaitRefusals waits until some more calls of each presser are refused.
func awaitRefusals(t *testing.T, crowds []*presser) {
	t.Helper()
	const more = 20
	var want []int
	for _, c := range crowds {
		want = append(want, c.refusals()+more)
	}
	eventually(t, 10*time.Second, func(context.Context) error {
		for i, c := range crowds {
			if c.refusals() < want[i] {
				return fmt.Errorf("%s refuses nothing", c.redis.algorithm)
			}
		}
		return nil
	})
}

// stepped tells the pressers that the clock is stepped, from which a wait counts anew.
func (c *presser) stepped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
}

func (c *presser) end() {
	c.stop()
	c.wg.Wait()
}
