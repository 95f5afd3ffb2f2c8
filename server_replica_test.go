package ratelimit

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// startReplica starts a server that follows another; it costs about 1 s more than startServer.
func startReplica(tb testing.TB, of *server) *server {
	tb.Helper()
	s := startServer(tb)
	host, port, err := net.SplitHostPort(of.peerAddr())
	require.NoError(tb, err)
	require.NoError(tb, s.Client(tb).ReplicaOf(tb.Context(), host, port).Err())
	s.awaitInfo(tb, "Replication", "master_link_status", "up")
	return s
}

// promote makes a replica a master of its own.
func (s *server) promote(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, s.Client(tb).ReplicaOf(tb.Context(), "NO", "ONE").Err())
	s.awaitInfo(tb, "Replication", "role", "master")
}

// dialVia dials the servers by the addresses at which they know each other.
func dialVia(servers ...*server) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		for _, s := range servers {
			if s.peerAddr() == addr {
				addr = s.addr
				break
			}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

const (
	sentinelMaster = "limiter"
	sentinelConf   = `sentinel monitor limiter %s %s 1
sentinel down-after-milliseconds limiter 500
sentinel failover-timeout limiter 5000
`
)

// sentinel watches a master and its replicas. It costs about 1 s, a failover about 2 s.
type sentinel struct {
	*server
	master   *server
	replicas []*server
}

// startSentinel starts a sentinel, alone and with a quorum of one, and waits until it knows all replicas.
func startSentinel(tb testing.TB, master *server, replicas ...*server) *sentinel {
	tb.Helper()
	host, port, err := net.SplitHostPort(master.peerAddr())
	require.NoError(tb, err)
	executable, err := master.info(tb.Context(), "Server", "executable")
	require.NoError(tb, err)
	servers := startServers(tb, 1, serverSpec{
		sentinel: fmt.Sprintf(sentinelConf, host, port),
		command:  path.Base(executable),
	})
	s := &sentinel{server: servers[0], master: master, replicas: replicas}
	eventually(tb, 20*time.Second, s.knowsReplicas)
	return s
}

// Options are those of a client that finds the master through the sentinel.
func (s *sentinel) Options() *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName:    sentinelMaster,
		SentinelAddrs: []string{s.addr},
		Dialer:        dialVia(append(slices.Clone(s.replicas), s.master)...),
	}
}

// Client is a failover client with the default options.
func (s *sentinel) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	rdb := redis.NewFailoverClient(s.Options())
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// failover kills the master and waits for the sentinel to make a replica the master, which it returns.
func (s *sentinel) failover(tb testing.TB) *server {
	tb.Helper()
	s.master.kill()
	var next *server
	eventually(tb, 30*time.Second, func(ctx context.Context) error {
		addr, err := s.masterAddr(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.replicas, func(r *server) bool { return r.peerAddr() == addr })
		if i < 0 {
			return fmt.Errorf("the sentinel's master is %s still", addr)
		}
		next = s.replicas[i]
		return nil
	})
	next.awaitInfo(tb, "Replication", "role", "master")
	s.replicas = slices.DeleteFunc(slices.Clone(s.replicas), func(r *server) bool { return r == next })
	s.master = next
	return next
}

func (s *sentinel) masterAddr(ctx context.Context) (string, error) {
	rdb := redis.NewSentinelClient(&redis.Options{Addr: s.addr})
	defer rdb.Close()
	addr, err := rdb.GetMasterAddrByName(ctx, sentinelMaster).Result()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(addr[0], addr[1]), nil
}

func (s *sentinel) knowsReplicas(ctx context.Context) error {
	rdb := redis.NewSentinelClient(&redis.Options{Addr: s.addr})
	defer rdb.Close()
	replicas, err := rdb.Replicas(ctx, sentinelMaster).Result()
	if err != nil {
		return err
	}
	up := 0
	for _, r := range replicas {
		if r["master-link-status"] == "ok" {
			up++
		}
	}
	if up < len(s.replicas) {
		return fmt.Errorf("the sentinel knows %d of %d replicas", up, len(s.replicas))
	}
	return nil
}
