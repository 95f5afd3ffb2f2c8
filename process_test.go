package ratelimit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A hammering is what a child process does: its goroutines call one limiter
// with one key.
type hammering struct {
	Algorithm Algorithm
	Prefix    string
	Limit     Limit
	All       []hammering // instead of one limit several at once, with their Algorithm and Limit
	Callers   int
	Calls     int // by all of them
}

const hammeringEnv = "RATELIMIT_TEST_HAMMERING"

var _ = registerChild("hammer", func() int {
	var h hammering
	if err := json.Unmarshal([]byte(os.Getenv(hammeringEnv)), &h); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	admitted, err := h.run(os.Getenv(addrEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Print(admitted)
	return 0
})

func (h *hammering) run(addr string) (admitted int64, err error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	r, err := h.limiter(rdb)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var calls, allowed atomic.Int64
	var failure atomic.Value
	var wg sync.WaitGroup
	for range h.Callers {
		wg.Go(func() {
			for calls.Add(1) <= int64(h.Calls) {
				result, err := r.Allow(ctx, "key")
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

func (h *hammering) limiter(rdb redis.UniversalClient) (Limiter, error) {
	if len(h.All) == 0 {
		return newRedis(h.Algorithm, rdb, h.Limit, []Option{WithPrefix(h.Prefix)})
	}
	var all []Base
	for _, one := range h.All {
		r, err := newRedis(one.Algorithm, rdb, one.Limit, []Option{WithPrefix(h.Prefix)})
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return All(all...)
}

// hammer runs h in three processes and adds up what they were admitted.
func hammer(t *testing.T, h *hammering) (admitted int64) {
	t.Helper()
	text, err := json.Marshal(h)
	require.NoError(t, err)
	var children []*exec.Cmd
	for range 3 {
		cmd := childCommand(t.Context(), "hammer")
		cmd.Env = append(cmd.Env, hammeringEnv+"="+string(text))
		cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
		require.NoError(t, cmd.Start())
		children = append(children, cmd)
	}
	for _, cmd := range children {
		require.NoError(t, cmd.Wait(), "%s", cmd.Stderr)
		var n int64
		_, err := fmt.Sscan(cmd.Stdout.(*bytes.Buffer).String(), &n)
		require.NoError(t, err)
		admitted += n
	}
	return admitted
}

// 64 goroutines in each of three processes, 20,000 calls in all on one key:
// what is admitted is what the limit has, to the unit.
func TestNeverOverTheLimit(t *testing.T) {
	t.Parallel()
	rdb := sharedRedis(t)
	for _, a := range allAlgorithms {
		h := hammering{Algorithm: a, Prefix: uniqueKey(t), Limit: PerDay(1).WithBurst(1000), Callers: 64, Calls: 3334}
		if a != TokenBucket && a != LeakyBucket {
			h.Limit = PerDay(1000)
		}
		require.EqualValues(t, 1000, hammer(t, &h), a)
		require.NoError(t, rdb.Del(t.Context(), h.Prefix+":"+string(a)+":{key}").Err())

		// And while units come back: 100 each 50 ms.
		h.Prefix, h.Limit = uniqueKey(t), Per(100, 50*time.Millisecond).WithBurst(100)
		began := serverTime(t, rdb)
		admitted := hammer(t, &h)
		periods := int64(serverTime(t, rdb).Sub(began) / h.Limit.Period)
		require.LessOrEqual(t, admitted, 100*(periods+2), "%s in %d periods", a, periods)
		require.Positive(t, admitted)
	}
}
