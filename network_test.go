package ratelimit

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// charged is how many units of a limiter's only key are taken.
func charged(t *testing.T, r *Redis, rdb redis.UniversalClient) int {
	t.Helper()
	result, err := through(t, r, rdb).Peek(t.Context(), "key")
	require.NoError(t, err)
	return result.Limit.capacity(r.algorithm) - result.Remaining
}

// The script runs, its reply is lost, and the client has its default retries:
// the call ends in an error and has taken its unit once.
func TestChargedOnce(t *testing.T) {
	t.Parallel()
	options := func(addr string) *redis.Options {
		return &redis.Options{Addr: addr, ReadTimeout: 200 * time.Millisecond}
	}
	for name, client := range map[string]func(t *testing.T, addr string) redis.UniversalClient{
		"client": func(t *testing.T, addr string) redis.UniversalClient { return newClient(t, options(addr)) },
		"ring": func(t *testing.T, addr string) redis.UniversalClient {
			ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}, ReadTimeout: 200 * time.Millisecond, HeartbeatFrequency: time.Hour})
			t.Cleanup(func() { _ = ring.Close() })
			return ring
		},
		"autopipeline": func(t *testing.T, addr string) redis.UniversalClient {
			pipeliner, err := newClient(t, options(addr)).AutoPipeline()
			require.NoError(t, err)
			return pipeliner
		},
		"asyncautopipeline": func(t *testing.T, addr string) redis.UniversalClient {
			pipeliner, err := newClient(t, options(addr)).AsyncAutoPipeline()
			require.NoError(t, err)
			return pipeliner
		},
	} {
		for _, cutAfter := range []bool{false, true} {
			t.Run(name+"/cut_"+strconv.FormatBool(cutAfter), func(t *testing.T) {
				t.Parallel()
				for _, a := range allAlgorithms {
					proxy := startProxy(t, sharedAddr())
					requireChargedOnce(t, a, client(t, proxy.Addr()), proxy, cutAfter)
				}
			})
		}
	}
}

func requireChargedOnce(t *testing.T, a Algorithm, rdb redis.UniversalClient, proxy *proxy, cutAfter bool) {
	t.Helper()
	r, err := newRedis(a, rdb, PerHour(10).WithBurst(10), []Option{WithPrefix(uniqueKey(t))})
	require.NoError(t, err)
	_, err = r.Allow(t.Context(), "key") // the script is known from here on
	require.NoError(t, err)

	for taken := 1; taken < 4; taken++ {
		before := proxy.dropped()
		proxy.dropReplyTo("evalsha", cutAfter)
		_, err = r.Allow(t.Context(), "key")
		require.Error(t, err)
		require.Equal(t, 1, proxy.dropped()-before)
		proxy.dropReplyTo("", false)
		require.Equal(t, taken+1, charged(t, r, sharedRedis(t)), "%v", err)
	}
	result, err := r.Allow(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, 5, result.Remaining)
}

func TestChargedOnceOnCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 0)
	options, proxies := proxied(t, c)
	options.ReadTimeout = 200 * time.Millisecond
	rdb := redis.NewClusterClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	direct := c.Client(t)
	for _, a := range allAlgorithms {
		r, err := newRedis(a, rdb, PerHour(10).WithBurst(10), nil)
		require.NoError(t, err)
		_, err = r.Allow(t.Context(), "key")
		require.NoError(t, err)
		for _, p := range proxies {
			p.dropReplyTo("evalsha", false)
		}
		_, err = r.Allow(t.Context(), "key")
		require.Error(t, err)
		for _, p := range proxies {
			p.dropReplyTo("", false)
		}
		require.Equal(t, 2, charged(t, r, direct), "%v", err)
	}
}

// proxied is a cluster's options with a proxy before each node.
func proxied(t *testing.T, c *cluster) (*redis.ClusterOptions, []*proxy) {
	t.Helper()
	options := c.Options()
	dial := options.Dialer
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	byAddr := map[string]*proxy{}
	var proxies []*proxy
	for _, node := range c.nodes() {
		p := startProxy(t, node.Addr())
		proxies = append(proxies, p)
		byAddr[node.Addr()], byAddr[node.peerAddr()] = p, p
	}
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p, ok := byAddr[addr]; ok {
			addr = p.Addr()
		}
		return dial(ctx, network, addr)
	}
	return options, proxies
}

// A call comes back when its context ends, whatever stands in its way.
func TestBoundByContext(t *testing.T) {
	t.Parallel()
	frozen := startProxy(t, sharedAddr())
	cluster := startCluster(t, 3, 0)
	clusterOptions, clusterProxies := proxied(t, cluster)
	clusterClient := redis.NewClusterClient(clusterOptions)
	pipeliner, err := newClient(t, &redis.Options{Addr: frozen.Addr()}).AutoPipeline()
	require.NoError(t, err)
	clients := map[string]redis.UniversalClient{
		"frozen":                 newClient(t, &redis.Options{Addr: frozen.Addr()}),
		"frozen autopipeline":    pipeliner,
		"frozen cluster":         clusterClient,
		"closed":                 newClient(t, &redis.Options{Addr: closedPort(t)}),
		"closed cluster":         redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{closedPort(t)}}),
		"never answers":          newClient(t, &redis.Options{Addr: blackHole(t)}),
		"never answers, cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{blackHole(t)}}),
	}
	limiters := map[string]*Redis{}
	for name, rdb := range clients {
		t.Cleanup(func() { _ = rdb.Close() })
		r, err := NewTokenBucket(rdb, PerHour(10), WithPrefix(uniqueKey(t)))
		require.NoError(t, err)
		limiters[name] = r
		if strings.HasPrefix(name, "frozen") { // with connections that work
			_, err := r.Allow(t.Context(), "key")
			require.NoError(t, err)
		}
	}
	for _, p := range append(clusterProxies, frozen) {
		p.stall(true)
	}
	for name, r := range limiters {
		overdue := func(end func() (context.Context, context.CancelFunc), want error) time.Duration {
			var late []time.Duration
			for range 5 {
				ctx, cancel := end()
				began := time.Now()
				_, err := r.Allow(ctx, "key")
				late = append(late, time.Since(began)-100*time.Millisecond)
				cancel()
				require.Error(t, err, name)
				if !errors.Is(err, want) {
					require.Negative(t, late[len(late)-1], "%s: %v", name, err) // the client gave up first
				}
			}
			slices.Sort(late)
			return late[len(late)/2]
		}
		late := overdue(func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 100*time.Millisecond)
		}, context.DeadlineExceeded)
		require.Less(t, late, 10*time.Millisecond, "%s, by deadline", name)

		late = overdue(func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled)
		require.Less(t, late, 10*time.Millisecond, "%s, by cancellation", name)
	}
}

// A limiter is made while Redis is away. Calls that end meanwhile are never
// sent, and once Redis is there the next one is served.
func TestRedisComesLate(t *testing.T) {
	t.Parallel()
	proxy := startProxy(t, closedPort(t))
	rdb := newClient(t, &redis.Options{Addr: proxy.Addr()})
	for _, a := range allAlgorithms {
		proxy.setTarget(closedPort(t))
		r, err := newRedis(a, rdb, Per(100, maxPeriod).WithBurst(100), []Option{WithPrefix(uniqueKey(t))})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if _, err := r.Allow(ctx, "key"); err == nil {
					t.Error("there was no Redis to ask")
				}
			})
		}
		wg.Wait()
		eventually(t, 10*time.Second, func(context.Context) error { // the client has given up, too
			if n := inClient(r); n > 0 {
				return errors.New(strconv.Itoa(n) + " calls are in the client")
			}
			return nil
		})
		proxy.setTarget(sharedAddr())
		eventually(t, 10*time.Second, func(ctx context.Context) error {
			_, err := r.Peek(ctx, "key")
			return err
		})
		require.Zero(t, charged(t, r, sharedRedis(t)))
		result, err := r.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, 99, result.Remaining)
	}
}

// While Redis is frozen, goroutines do not pile up beyond the calls that are in
// the client; once it is back, none is left, and nothing is charged of the
// calls that had not been sent.
func TestNothingPilesUp(t *testing.T) {
	server := startServer(t)
	pipeliner, err := server.Client(t).AutoPipeline()
	require.NoError(t, err)
	for name, rdb := range map[string]redis.UniversalClient{
		"client":       newClient(t, &redis.Options{Addr: server.Addr(), PoolSize: 10}),
		"autopipeline": pipeliner,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewFixedWindow(rdb, PerHour(100_000), WithPrefix(uniqueKey(t)))
			require.NoError(t, err)
			_, err = r.Allow(t.Context(), "key")
			require.NoError(t, err)
			before := runtime.NumGoroutine()

			server.freeze()
			var wg sync.WaitGroup
			most := 0
			for range 64 {
				wg.Go(func() {
					for range 60 {
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
						_, err := r.Allow(ctx, "key")
						cancel()
						if err == nil {
							t.Error("a frozen server answered")
						}
					}
				})
			}
			for range 10 {
				time.Sleep(100 * time.Millisecond)
				most = max(most, runtime.NumGoroutine())
			}
			wg.Wait()
			server.thaw()
			calling := 10 + 64
			if name == "autopipeline" {
				calling = maxInFlight
			}
			t.Logf("%d goroutines before, %d at most", before, most)
			require.LessOrEqual(t, most, before+64+calling+50)

			eventually(t, 15*time.Second, func(context.Context) error {
				if n := runtime.NumGoroutine(); n > before+20 || inClient(r) > 0 {
					return errors.New(strconv.Itoa(n) + " goroutines are left")
				}
				return nil
			})
			require.LessOrEqual(t, charged(t, r, rdb), 1+64+calling)
		})
	}
}

// Whatever the script cache of a server has lost, no caller sees it.
func TestScriptsAreNeverMissing(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	rdb := server.Client(t)
	for _, a := range allAlgorithms {
		limit := Per(10_000, maxPeriod)
		if a == LeakyBucket {
			limit.Burst = 10_000
		}
		r, err := newRedis(a, rdb, limit, nil)
		require.NoError(t, err)
		allow := func(times int) {
			t.Helper()
			for range times {
				result, err := r.Allow(t.Context(), "key")
				require.NoError(t, err)
				require.True(t, result.Allowed)
			}
		}
		allow(1)
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		allow(1)

		// 600 other scripts: newer servers keep 500 that came by EVAL.
		pipe := rdb.Pipeline()
		for i := range 600 {
			pipe.Eval(t.Context(), "return "+strconv.Itoa(i)+" --"+string(a), nil)
		}
		_, err = pipe.Exec(t.Context())
		require.NoError(t, err)
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		allow(1)
		require.NotContains(t, commandCalls(t, rdb), "eval")

		// Flushed all the time, by another client, under many callers.
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				rdb.ScriptFlush(ctx)
				time.Sleep(5 * time.Millisecond)
			}
		})
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				for range 50 {
					if _, err := r.Allow(ctx, "key"); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
		cancel()
		wg.Wait()
		require.Equal(t, 3+16*50, charged(t, r, rdb))
	}
}

// A server that comes back empty, and a replica that takes over and has never
// seen the script, serve the next call.
func TestRestartAndFailover(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	replica := startReplica(t, master)
	proxy := startProxy(t, master.Addr())
	rdb := newClient(t, &redis.Options{Addr: proxy.Addr()})
	var limiters []*Redis
	for _, a := range allAlgorithms {
		r, err := newRedis(a, rdb, PerHour(10).WithBurst(10), nil)
		require.NoError(t, err)
		limiters = append(limiters, r)
	}
	remaining := func(want int) {
		t.Helper()
		for _, r := range limiters {
			result, err := r.Allow(t.Context(), "key")
			require.NoError(t, err)
			require.Equal(t, want, result.Remaining, r.algorithm)
		}
	}
	remaining(9)
	require.NoError(t, master.Client(t).Wait(t.Context(), 1, 5*time.Second).Err())
	replica.promote(t)
	proxy.setTarget(replica.Addr())
	remaining(8)

	master.restart()
	proxy.setTarget(master.Addr())
	remaining(9)
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	replica := startReplica(t, master)
	sentinel := startSentinel(t, master, replica)
	rdb := sentinel.Client(t)
	r, err := NewTokenBucket(rdb, PerHour(100))
	require.NoError(t, err)
	_, err = r.Allow(t.Context(), "key")
	require.NoError(t, err)
	sentinel.failover(t)
	eventually(t, 20*time.Second, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := r.Allow(ctx, "key")
		require.False(t, unknownScript(err), "%v", err)
		return err
	})
}
