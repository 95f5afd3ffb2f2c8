package ratelimit

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
)

// A server's wall clock is stepped by an hour while callers press on one key:
// at most one capacity more is admitted because of it, nobody is refused for
// longer than one time to full, and nobody is told to wait longer.
func TestClockStep(t *testing.T) {
	t.Parallel()
	library := buildClock(t)
	for _, c := range []struct {
		name  string
		steps []time.Duration
	}{
		{"back", []time.Duration{-time.Hour}},
		{"forward", []time.Duration{time.Hour}},
		{"back and forward", []time.Duration{-time.Hour, time.Hour}},
		{"forward and back", []time.Duration{time.Hour, -time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testSteps(t, startServers(t, 1, serverSpec{preload: library})[0], c.steps)
		})
	}
}

func testSteps(t *testing.T, s *server, steps []time.Duration) {
	const capacity, busy = 50, 500 * time.Millisecond
	limit := Per(capacity, time.Second).WithBurst(capacity)
	rdb := newClient(t, &redis.Options{Addr: s.Addr(), PoolSize: 100})
	var crowds []*presser
	var patient, late []*loner
	for _, a := range allAlgorithms {
		patient = append(patient, newLoner(t, rdb, a, limit, "patient"))
		late = append(late, newLoner(t, rdb, a, limit, "late"))
		crowds = append(crowds, newCrowd(t, rdb, a, limit, patient[len(patient)-1].full))
	}
	awaitRefusals(t, crowds)
	for _, d := range steps {
		for _, c := range crowds {
			c.stepped()
		}
		s.stepClock(t, rdb, d)
		awaitRefusals(t, crowds)
	}
	// In the longest time to full: then the late ones would be refused no more, had no clock been stepped.
	longest := 2 * limit.Period
	over := time.After(longest)
	waitAll(t, patient)
	<-over
	for _, c := range crowds {
		c.end()
	}
	waitAll(t, late)

	for i, c := range crowds {
		t.Logf("%-22s capacity %d, time to full %v: %+d admitted because of the step, refused for at most %v, longest RetryAfter %v; alone at once %v, late %v",
			c.redis.algorithm, capacity, c.full.Round(time.Millisecond), c.surplus, c.wait.Round(time.Millisecond),
			c.longest.Round(time.Millisecond), patient[i].wait.Round(time.Millisecond), late[i].wait.Round(time.Millisecond))
		require.NoError(t, c.err, c.redis.algorithm)
		require.Greater(t, c.admitted, capacity, "%s: the presser was admitted nothing after the step", c.redis.algorithm)
		require.LessOrEqual(t, c.surplus, capacity*len(steps)+crowdCallers, c.redis.algorithm)
		require.LessOrEqual(t, c.wait, c.full+busy, c.redis.algorithm)
	}
	requireKeysEnd(t, rdb, longest)
}

// A loner has taken all of its own key's units at once, and wants to do so again.
type loner struct {
	redis *Redis
	key   string
	full  time.Duration
	wait  time.Duration // what it was told to wait
}

func newLoner(t *testing.T, rdb *redis.Client, a Algorithm, l Limit, key string) *loner {
	t.Helper()
	r, err := newRedis(a, rdb, l, []Option{WithPrefix("loner")})
	require.NoError(t, err)
	result, err := r.AllowN(t.Context(), key, l.capacity(a))
	require.NoError(t, err)
	require.True(t, result.Allowed)
	return &loner{redis: r, key: key, full: result.ResetAfter}
}

// waitAll lets all of them ask and wait for as long as they are told, which must
// be at most one time to full, and enough.
func waitAll(t *testing.T, loners []*loner) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make(chan error, len(loners))
	for _, l := range loners {
		wg.Go(func() { errs <- l.askTwice(t.Context()) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func (l *loner) askTwice(ctx context.Context) error {
	limit, err := l.redis.limits.LimitFor(ctx, l.key)
	if err != nil {
		return err
	}
	n := limit.capacity(l.redis.algorithm)
	first, err := l.redis.AllowN(ctx, l.key, n)
	if err != nil || first.Allowed {
		return err
	}
	if l.wait = first.RetryAfter; l.wait > l.full {
		return fmt.Errorf("%s: %s is told to wait %v, longer than the time to full, %v", l.redis.algorithm, l.key, l.wait, l.full)
	}
	<-time.After(l.wait)
	second, err := l.redis.AllowN(ctx, l.key, n)
	if err == nil && !second.Allowed {
		err = fmt.Errorf("%s: %s waited %v as it was told, and must wait %v more", l.redis.algorithm, l.key, l.wait, second.RetryAfter)
	}
	return err
}

// requireKeysEnd requires that all keys have a TTL, no longer than any state can
// need, and go.
func requireKeysEnd(t *testing.T, rdb *redis.Client, longest time.Duration) {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	for _, key := range keys {
		ttl, err := rdb.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		require.NotEqual(t, time.Duration(-1), ttl, "%s has no TTL", key)
		require.LessOrEqual(t, ttl, longest+5*time.Millisecond, key)
	}
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		left, err := rdb.DBSize(ctx).Result()
		if err == nil && left != 0 {
			err = fmt.Errorf("%d keys are left", left)
		}
		return err
	})
}

// buildClock builds the library through which a server's clock can be stepped.
func buildClock(t *testing.T) (library string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	require.NoError(t, err, "this test steps a server's clock, by a library in C: put a C compiler on PATH as cc")
	library = filepath.Join(t.TempDir(), "clock.so")
	said, err := exec.Command(cc, "-shared", "-fPIC", "-nostdlib", "-fno-stack-protector", "-O1", "-o", library,
		filepath.Join("testdata", "clock.c")).CombinedOutput()
	require.NoError(t, err, "%s", said)
	return library
}

// stepClock steps the server's clock by an hour, and waits until it shows.
func (s *server) stepClock(t *testing.T, rdb *redis.Client, by time.Duration) {
	t.Helper()
	want := time.Until(serverTime(t, rdb)) + by
	signal := "USR1"
	if by < 0 {
		signal = "URG"
	}
	switch m := s.machine.(type) {
	case *serverProcess:
		require.NoError(t, m.signal(signal))
	case *serverContainer:
		require.NoError(t, callDocker((*testcontainers.DockerClient).ContainerKill, m.docker.GetContainerID(),
			map[string]string{"Signal": "SIG" + signal}))
	}
	eventually(t, 5*time.Second, func(ctx context.Context) error {
		now, err := rdb.Time(ctx).Result()
		if off := time.Until(now) - want; err == nil && off.Abs() > time.Minute {
			err = fmt.Errorf("the server's clock is %v off", off)
		}
		return err
	})
}
