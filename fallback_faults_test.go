package ratelimit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A crowd is callers with a budget each, who keep count of what they got.
type crowd struct {
	mu        sync.Mutex
	worst     time.Duration // by which a call was over its budget
	undecided []error
	calls     int
	fallback  int
	primary   chan struct{} // gets one when Primary has decided and somebody waits for it
}

const (
	crowdSize   = 64
	crowdBudget = 50 * time.Millisecond
	crowdMargin = 10 * time.Millisecond
)

func (c *crowd) call(t *testing.T, f *Fallback, key string) {
	ctx, cancel := context.WithTimeout(t.Context(), crowdBudget)
	defer cancel()
	began := time.Now()
	r, err := f.Allow(ctx, key)
	over := time.Since(began) - crowdBudget
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.worst = max(c.worst, over)
	switch {
	case err != nil:
		c.undecided = append(c.undecided, err)
	case r.Fallback:
		c.fallback++
	default:
		select {
		case c.primary <- struct{}{}:
		default:
		}
	}
}

// awaitPrimary is how long it takes from now until Primary decides.
func (c *crowd) awaitPrimary(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	select {
	case <-c.primary:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "Primary does not decide")
	}
	return time.Since(began)
}

// gather lets the crowd call while act runs, each caller every few milliseconds.
func gather(t *testing.T, f *Fallback, act func(c *crowd)) *crowd {
	t.Helper()
	c, stop := &crowd{primary: make(chan struct{}), worst: -crowdBudget}, make(chan struct{})
	var callers sync.WaitGroup
	for i := range crowdSize {
		callers.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-stop:
					return
				case <-pace.C:
					c.call(t, f, strconv.Itoa(i))
				}
			}
		})
	}
	defer callers.Wait()
	defer close(stop)
	c.awaitPrimary(t)
	act(c)
	return c
}

// Redis is killed, frozen and restarted under 64 callers: every call gets a
// decision within its budget, and as soon as Redis answers the client again,
// Primary decides again within a cooldown and a probe. It measures, so it is not
// run beside other tests, and again if the machine was busy.
func TestFallbackUnderFaults(t *testing.T) {
	faults := map[string]func(c *crowd, f *Fallback, s *server){
		"killed": func(c *crowd, f *Fallback, s *server) {
			s.kill()
			awaitProbes(t, f, 3)
			s.restart()
		},
		"frozen": func(c *crowd, f *Fallback, s *server) {
			s.freeze()
			awaitProbes(t, f, 3)
			s.thaw()
		},
		"restarted": func(c *crowd, f *Fallback, s *server) { s.restart() },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			for attempt := 1; ; attempt++ {
				err := tryFault(t, fault)
				if err == nil {
					return
				}
				t.Logf("attempt %d: %v", attempt, err)
				if attempt == 5 {
					require.NoError(t, err)
				}
			}
		})
	}
}

// awaitProbes waits until n more probes have failed.
func awaitProbes(t *testing.T, f *Fallback, n int) {
	t.Helper()
	var last *phase
	eventually(t, 20*time.Second, func(context.Context) error {
		if p := f.breaker.current(); p != last && p.state == BreakerOpen {
			last = p
			n--
		}
		if n >= 0 {
			return errors.New("not so many probes yet")
		}
		return nil
	})
}

func tryFault(t *testing.T, fault func(*crowd, *Fallback, *server)) error {
	t.Helper()
	s := startServer(t)
	rdb := s.Client(t)
	r, err := NewTokenBucket(rdb, PerHour(1_000_000))
	require.NoError(t, err)
	f := &Fallback{
		Primary: r, Secondary: newMemory(t, TokenBucket, PerHour(1_000_000)),
		Cooldown: 50 * time.Millisecond, MaxCooldown: 200 * time.Millisecond,
	}
	var up, back time.Duration
	c := gather(t, f, func(c *crowd) {
		fault(c, f, s)
		began := time.Now()
		eventually(t, 20*time.Second, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, crowdBudget)
			defer cancel()
			return rdb.Ping(ctx).Err()
		})
		up = time.Since(began)
		back = c.awaitPrimary(t)
	})
	t.Logf("%d calls, %d by Secondary, %d undecided; the last to end was %v after its budget; "+
		"the client was back %v after the server, and Primary decided %v after that",
		c.calls, c.fallback, len(c.undecided), c.worst, up, back)
	probe := crowdBudget / 2
	switch {
	case len(c.undecided) > 0:
		return fmt.Errorf("%d of %d calls got no decision: %w", len(c.undecided), c.calls, c.undecided[0])
	case c.worst > crowdMargin:
		return fmt.Errorf("a call was %v over its budget", c.worst)
	case back > f.MaxCooldown+probe+crowdMargin:
		return fmt.Errorf("it took %v to get back to Primary", back)
	}
	return nil
}

// Calls that Secondary has decided are not sent when Redis comes back.
func TestFallbackReplaysNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r, err := NewTokenBucket(s.Client(t), PerDay(1000))
	require.NoError(t, err)
	f := &Fallback{Primary: r, Secondary: FailOpen, Timeout: 5 * time.Millisecond, Failures: 1_000_000}
	eventually(t, 10*time.Second, func(ctx context.Context) error { // the script is known, and connections stand
		_, err := r.Allow(ctx, "key")
		return err
	})
	s.kill()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if result, err := f.Allow(t.Context(), "key"); err != nil || !result.Fallback {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
	wg.Wait()
	s.restart() // empty
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		if n := inClient(r); n > 0 {
			return fmt.Errorf("%d calls are in the client", n)
		}
		_, err := r.Peek(ctx, "key")
		return err
	})
	result, err := r.Peek(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, 1000, result.Remaining)
}

// A replica is one of the processes that have lost the Redis they share.
type replica struct {
	Addr     string // where there is no Redis
	Limit    Limit
	Replicas int
}

const replicaEnv = "RATELIMIT_TEST_REPLICA"

var _ = registerChild("replica", func() int {
	var r replica
	if err := json.Unmarshal([]byte(os.Getenv(replicaEnv)), &r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	admitted := map[Algorithm]int64{}
	for _, a := range allAlgorithms {
		n, err := r.run(a)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		admitted[a] = n
	}
	if err := json.NewEncoder(os.Stdout).Encode(admitted); err != nil {
		return 1
	}
	return 0
})

// run asks for the whole limit, three times over.
func (r replica) run(a Algorithm) (admitted int64, err error) {
	rdb := redis.NewClient(&redis.Options{Addr: r.Addr})
	defer rdb.Close()
	primary, err := newRedis(a, rdb, r.Limit, nil)
	if err != nil {
		return 0, err
	}
	secondary, err := NewMemory(a, r.Limit.Share(r.Replicas))
	if err != nil {
		return 0, err
	}
	f := &Fallback{Primary: primary, Secondary: secondary}
	var allowed atomic.Int64
	var failure atomic.Value
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range r.Limit.Rate * 3 / 10 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				result, err := f.Allow(ctx, "key")
				cancel()
				if err != nil {
					failure.Store(err)
					return
				}
				if result.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err, ok := failure.Load().(error); ok {
		return 0, err
	}
	return allowed.Load(), nil
}

// Processes without their Redis, each with its share: together they let
// through the limit and at most a unit less than there are of them more.
func TestFallbackSharesTheLimit(t *testing.T) {
	t.Parallel()
	const limit, replicas = 100, 3
	text, err := json.Marshal(replica{closedPort(t), PerDay(limit).WithBurst(limit), replicas})
	require.NoError(t, err)
	var children []*exec.Cmd
	for range replicas {
		cmd := childCommand(t.Context(), "replica")
		cmd.Env = append(cmd.Env, replicaEnv+"="+string(text))
		cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
		require.NoError(t, cmd.Start())
		children = append(children, cmd)
	}
	total := map[Algorithm]int64{}
	for _, cmd := range children {
		require.NoError(t, cmd.Wait(), "%s", cmd.Stderr)
		var admitted map[Algorithm]int64
		require.NoError(t, json.Unmarshal(cmd.Stdout.(*bytes.Buffer).Bytes(), &admitted))
		for a, n := range admitted {
			total[a] += n
		}
	}
	for _, a := range allAlgorithms {
		require.GreaterOrEqual(t, total[a], int64(limit), a)
		require.LessOrEqual(t, total[a], int64(limit+replicas-1), a)
	}
	t.Logf("admitted by %d processes under a limit of %d: %v", replicas, limit, total)
}
