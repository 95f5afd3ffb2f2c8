package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// sharedAddr is the address of the Redis that tests have in common: use keys of your own, and never flush it.
func sharedAddr() string { return shared.addr }

// sharedRedis is one client for the whole run.
func sharedRedis(tb testing.TB) *redis.Client {
	tb.Helper()
	return sharedClient()
}

var sharedClient = sync.OnceValue(func() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: shared.addr, PoolSize: 200})
})

// server is a Redis of a test's own, which the test may kill, freeze and restart.
type server struct {
	machine
	tb   testing.TB
	addr string // for the test
}

// machine is what a server runs in: a process or a container.
type machine interface {
	start(ctx context.Context) error // returns when the server answers; also after stop
	stop() error                     // at once, as by a crash
	pause() error
	resume() error
	remove() error
	dialAddr() string // for the test
	peerAddr() string // for other servers
}

// serverSpec says what to start.
type serverSpec struct {
	args     []string // options for redis-server's command line
	sentinel string   // the configuration file, where it is a sentinel
	command  string   // what the sentinel's program is called in an image
	preload  string   // a shared library to be loaded before all else
}

// startServer starts a server of the same kind as the shared one, with more options for its command line.
// It costs about 0.05 s as a process and 0.5 s as a container, and 10 MB of memory.
func startServer(tb testing.TB, args ...string) *server {
	tb.Helper()
	return startServers(tb, 1, serverSpec{args: args})[0]
}

// startServers starts n servers at the same time.
func startServers(tb testing.TB, n int, spec serverSpec) []*server {
	tb.Helper()
	by, err := ownServers()
	require.NoError(tb, err)
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()

	servers, errs := make([]*server, n), make([]error, n)
	var starts sync.WaitGroup
	for i := range n {
		starts.Go(func() { servers[i], errs[i] = launch(ctx, by, spec) })
	}
	starts.Wait()
	for _, s := range servers {
		if s != nil {
			s.tb = tb
			tb.Cleanup(func() { require.NoError(tb, s.remove()) })
		}
	}
	require.NoError(tb, errors.Join(errs...))
	return servers
}

// ownServers tells how a test gets servers of its own.
func ownServers() (by string, err error) {
	if shared.by != byAddr {
		return shared.by, nil
	}
	if _, err := serverBinary(); err != nil {
		return "", fmt.Errorf("this test starts servers of its own: put redis-server or valkey-server on PATH, "+
			"or unset %s and start Docker (%w)", addrEnv, err)
	}
	return byProcess, nil
}

// launch starts a server. Another program may take its port at the last moment, so it tries a few.
func launch(ctx context.Context, by string, spec serverSpec) (s *server, err error) {
	for range 3 {
		var m machine
		if by == byContainer {
			m, err = newContainer(ctx, freePort(), spec)
		} else {
			m, err = newProcess(freePort(), spec)
		}
		if err != nil {
			return nil, err
		}
		if err = m.start(ctx); err == nil {
			return &server{machine: m, addr: m.dialAddr()}, nil
		}
		err = errors.Join(err, m.remove())
		if !strings.Contains(err.Error(), "already") { // "in use", "allocated"
			break
		}
	}
	return nil, err
}

func serverArgs(port string, spec serverSpec) []string {
	return append([]string{
		"--port", port,
		"--save", "",
		"--protected-mode", "no",
		"--repl-diskless-sync-delay", "0", // else a replica waits 5 s for its first data
		"--repl-ping-replica-period", "1", // else a cluster does not count it for 10 s
	}, spec.args...)
}

// Addr is where a test dials the server. It stays the same for the server's life.
func (s *server) Addr() string { return s.addr }

// Client is a client with the default options.
func (s *server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return newClient(tb, &redis.Options{Addr: s.addr})
}

func newClient(tb testing.TB, opts *redis.Options) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(opts)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// kill ends the server as a crash would.
func (s *server) kill() { s.tb.Helper(); require.NoError(s.tb, s.stop()) }

// freeze stops the server without closing its connections; thaw lets it go on.
func (s *server) freeze() { s.tb.Helper(); require.NoError(s.tb, s.pause()) }
func (s *server) thaw()   { s.tb.Helper(); require.NoError(s.tb, s.resume()) }

// restart kills the server if it runs, and starts it at the same address, empty.
func (s *server) restart() {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), 30*time.Second)
	defer cancel()
	require.NoError(s.tb, s.stop())
	require.NoError(s.tb, s.start(ctx))
}

// info is one field of INFO.
func (s *server) info(ctx context.Context, section, field string) (string, error) {
	rdb := redis.NewClient(&redis.Options{Addr: s.addr})
	defer rdb.Close()
	info, err := rdb.InfoMap(ctx, section).Result()
	return info[section][field], err
}

// awaitInfo waits until the field of INFO has that value.
func (s *server) awaitInfo(tb testing.TB, section, field, want string) {
	tb.Helper()
	eventually(tb, 20*time.Second, func(ctx context.Context) error {
		got, err := s.info(ctx, section, field)
		if err == nil && got != want {
			err = fmt.Errorf("%s: %s is %q, not %q", s.addr, field, got, want)
		}
		return err
	})
}
