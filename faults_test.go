package ratelimit

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Under every fault, 64 callers of all five algorithms give each call 50 ms, with a client that has the
// default options. Every call comes back in time, with a decision or an error that says why there is
// none, and has taken its unit at most once, a decided call exactly once.
//
// The subtests run one by one, before all parallel tests: what they measure is time.
func TestFaults(t *testing.T) {
	faults := slices.Concat(serverFaults, networkFaults)
	for _, f := range faults {
		f.name += ", calls apart"
		f.options = []Option{WithoutCoalescing()}
		faults = append(faults, f)
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			// What a plain timer is late, the machine is, not the limiter. One call of thousands may
			// still be put off for longer than any timer was, so there are three tries.
			inTime := false
			for try := 0; try < 3 && !inTime; try++ {
				outcome := f.run(t)
				t.Log(outcome)
				inTime = outcome.late.worst <= grace+outcome.timers.worst && outcome.late.most <= grace+outcome.timers.most
			}
			require.True(t, inTime, "calls came back more than %v after their time, in the best of 3 runs", grace)
		})
	}
}

// A fault befalls a server, or the way to it, while callers ask it.
type fault struct {
	name    string
	args    []string // of the server
	proxied bool
	strike  func(t *testing.T, s *scene) // lets the fault come and go
	hidden  bool                         // no caller sees it, but for the time that it costs
	options []Option                     // of the limiters
}

// A scene is where a fault strikes.
type scene struct {
	server   *server       // the one that decides in the end
	admin    *redis.Client // of the server, past the proxy
	proxy    *proxy        // if the fault is proxied
	client   *redis.Client // of the callers
	limiters []*Redis      // one of each algorithm
	others   int           // connections of the server that are none of these
}

func newScene(t *testing.T, f *fault) *scene {
	t.Helper()
	s := &scene{server: startServer(t, f.args...)}
	s.admin = s.server.Client(t)
	addr := s.server.Addr()
	if f.proxied {
		s.proxy = startProxy(t, addr)
		addr = s.proxy.Addr()
	}
	s.client = newClient(t, &redis.Options{Addr: addr})
	s.limiters = s.limitersOf(t, s.client, f.options...)
	return s
}

// faultLimit lets no unit come back while a fault lasts.
var faultLimit = Per(1000, maxPeriod).WithBurst(1000)

func (s *scene) limitersOf(t *testing.T, rdb redis.UniversalClient, options ...Option) []*Redis {
	t.Helper()
	var limiters []*Redis
	for _, a := range allAlgorithms {
		r, err := newRedis(a, rdb, faultLimit, options)
		require.NoError(t, err)
		limiters = append(limiters, r)
	}
	return limiters
}

func (f *fault) run(t *testing.T) outcome {
	t.Helper()
	s := newScene(t, f)
	s.requireDecisions(t) // before anything happens
	load := startLoad(t, s.limiters)
	time.Sleep(200 * time.Millisecond)
	f.strike(t, s)
	over := time.Now()
	s.requireDecisions(t)
	recovered := time.Since(over)
	time.Sleep(200 * time.Millisecond)
	calls := load.stop()
	s.settle(t)

	o := outcome{name: f.name, recovered: recovered, timers: latenessOf(slices.Concat(load.timers[:]...)), why: map[string]int{}}
	var late []time.Duration
	for _, c := range calls {
		require.Empty(t, c.wrong)
		late = append(late, c.late)
		o.add(c)
	}
	o.late = latenessOf(late)
	s.account(t, calls, &o)
	require.Positive(t, o.decided)
	if f.hidden {
		require.Empty(t, slices.DeleteFunc(slices.Collect(maps.Keys(o.why)), func(why string) bool { return why == "deadline" }))
	} else {
		require.Positive(t, o.calls-o.decided, "the fault did not strike")
	}
	return o
}

// requireDecisions waits until all limiters decide again.
func (s *scene) requireDecisions(t *testing.T) {
	t.Helper()
	for _, r := range s.limiters {
		eventually(t, 10*time.Second, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, budget)
			defer cancel()
			_, err := r.Peek(ctx, "recovered")
			return err
		})
	}
}

// settle waits until nothing is under way that could still be charged: neither in the client, nor on a
// connection that the server has still to read.
func (s *scene) settle(t *testing.T) {
	t.Helper()
	if s.proxy != nil {
		s.proxy.cut()
	}
	for _, r := range s.limiters {
		eventually(t, 15*time.Second, func(context.Context) error {
			if n := inClient(r); n > 0 {
				return errors.New(strconv.Itoa(n) + " calls are in the client")
			}
			return nil
		})
	}
	require.NoError(t, s.client.Close())
	require.NoError(t, s.admin.Close())
	s.server.awaitInfo(t, "Clients", "connected_clients", strconv.Itoa(1+s.others))
}

// why names the kind of an error that stands for no decision; "" is one that a caller can't tell.
func why(err error) string {
	var said redis.Error
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case errors.As(err, &said):
		return "server"
	case errors.Is(err, redis.ErrPoolTimeout):
		return "pool"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed"
	case errors.As(err, &network):
		return "network"
	}
	return ""
}
