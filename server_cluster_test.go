package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const slots = 16384

// cluster is a Redis Cluster of a test's own.
type cluster struct {
	all      []*server
	masters  []*server // those that serve slots now
	replicas []*server // those of the first master first
}

// startCluster starts a cluster of masters, each with that many replicas. It costs about 2 s, for so long
// a server waits before it believes that its cluster is well, and with containers 4 to 7 s.
func startCluster(tb testing.TB, masters, replicasPer int) *cluster {
	tb.Helper()
	nodes := startServers(tb, masters*(1+replicasPer), serverSpec{args: []string{
		"--cluster-enabled", "yes",
		"--cluster-node-timeout", "2000",
	}})
	c := &cluster{all: nodes, masters: slices.Clone(nodes[:masters]), replicas: slices.Clone(nodes[masters:])}
	c.introduce(tb)
	c.shareSlots(tb)
	eventually(tb, 20*time.Second, c.allKnown)
	c.replicate(tb, replicasPer)
	eventually(tb, 30*time.Second, func(ctx context.Context) error { return c.healthy(ctx, replicasPer) })
	return c
}

// nodes are those that live.
func (c *cluster) nodes() []*server { return slices.Concat(c.masters, c.replicas) }

// introduce tells each node its own address and the first node those of all others.
func (c *cluster) introduce(tb testing.TB) {
	tb.Helper()
	first := c.masters[0].Client(tb)
	for i, node := range c.nodes() {
		host, port, err := net.SplitHostPort(node.peerAddr())
		require.NoError(tb, err)
		rdb := node.Client(tb)
		require.NoError(tb, rdb.ConfigSet(tb.Context(), "cluster-announce-ip", host).Err())
		require.NoError(tb, rdb.Do(tb.Context(), "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		if i > 0 {
			require.NoError(tb, first.ClusterMeet(tb.Context(), host, port).Err())
		}
	}
}

func (c *cluster) shareSlots(tb testing.TB) {
	tb.Helper()
	n := len(c.masters)
	for i, node := range c.masters {
		err := node.Client(tb).ClusterAddSlotsRange(tb.Context(), i*slots/n, (i+1)*slots/n-1).Err()
		require.NoError(tb, err)
	}
}

func (c *cluster) replicate(tb testing.TB, replicasPer int) {
	tb.Helper()
	for i, node := range c.replicas {
		id, err := c.masters[i/replicasPer].Client(tb).ClusterMyID(tb.Context()).Result()
		require.NoError(tb, err)
		require.NoError(tb, node.Client(tb).ClusterReplicate(tb.Context(), id).Err())
	}
	for _, node := range c.replicas {
		node.awaitInfo(tb, "Replication", "master_link_status", "up")
	}
}

// allKnown tells whether every node knows every other.
func (c *cluster) allKnown(ctx context.Context) error {
	return c.everyNodeSays(ctx, "cluster_known_nodes:"+strconv.Itoa(len(c.nodes())))
}

// healthy tells whether every node finds the cluster well, all slots covered and all replicas in place.
func (c *cluster) healthy(ctx context.Context, replicasPer int) error {
	if err := c.everyNodeSays(ctx, "cluster_state:ok", "cluster_slots_ok:"+strconv.Itoa(slots)); err != nil {
		return err
	}
	return c.each(ctx, func(rdb *redis.Client) error {
		ranges, err := slotRanges(ctx, rdb)
		for _, r := range ranges {
			if len(r.Nodes) != 1+replicasPer {
				return fmt.Errorf("slots from %d have %d nodes", r.Start, len(r.Nodes))
			}
		}
		return err
	})
}

// failover kills the first master and waits until all nodes that are left have a replica of it, which it
// returns, in its place. It costs about 4 s.
func (c *cluster) failover(tb testing.TB) *server {
	tb.Helper()
	old := c.masters[0]
	old.kill()
	c.masters = c.masters[1:]
	var owner string
	eventually(tb, 30*time.Second, func(ctx context.Context) error {
		owner = ""
		return c.each(ctx, func(rdb *redis.Client) error {
			ranges, err := slotRanges(ctx, rdb)
			if err != nil {
				return err
			}
			return agree(&owner, ranges, old.peerAddr())
		})
	})
	i := slices.IndexFunc(c.replicas, func(s *server) bool { return s.peerAddr() == owner })
	require.GreaterOrEqual(tb, i, 0, "%s is no replica", owner)
	next := c.replicas[i]
	c.masters = slices.Insert(c.masters, 0, next)
	c.replicas = slices.Delete(c.replicas, i, i+1)
	eventually(tb, 20*time.Second, func(ctx context.Context) error { return c.everyNodeSays(ctx, "cluster_state:ok") })
	return next
}

func slotRanges(ctx context.Context, rdb *redis.Client) ([]redis.ClusterSlot, error) {
	return rdb.ClusterSlots(ctx).Result() //nolint:staticcheck // what clients ask, and Redis 6.2 knows nothing newer
}

// agree tells whether the first slot has one owner in the eyes of all nodes, and not the old one.
func agree(owner *string, ranges []redis.ClusterSlot, old string) error {
	for _, r := range ranges {
		if r.Start != 0 {
			continue
		}
		got := r.Nodes[0].Addr
		if got == old || *owner != "" && got != *owner {
			return fmt.Errorf("slot 0 is with %s still", got)
		}
		*owner = got
		return nil
	}
	return errors.New("slot 0 is with nobody")
}

func (c *cluster) everyNodeSays(ctx context.Context, lines ...string) error {
	return c.each(ctx, func(rdb *redis.Client) error {
		info, err := rdb.ClusterInfo(ctx).Result()
		for _, line := range lines {
			if !strings.Contains(info, line+"\r\n") {
				return errors.Join(err, fmt.Errorf("no %s in %q", line, info))
			}
		}
		return err
	})
}

// each asks one node after the other, up to the first that finds something wrong.
func (c *cluster) each(ctx context.Context, ask func(*redis.Client) error) error {
	for _, node := range c.nodes() {
		rdb := redis.NewClient(&redis.Options{Addr: node.addr})
		err := ask(rdb)
		_ = rdb.Close()
		if err != nil {
			return fmt.Errorf("node %s: %w", node.addr, err)
		}
	}
	return nil
}

// Options are those of a client of the cluster; it dials the nodes as the test can, not as they announce.
func (c *cluster) Options() *redis.ClusterOptions {
	opts := &redis.ClusterOptions{Dialer: dialVia(c.all...)}
	for _, node := range c.masters {
		opts.Addrs = append(opts.Addrs, node.peerAddr())
	}
	return opts
}

// Client is a client with the default options.
func (c *cluster) Client(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	rdb := redis.NewClusterClient(c.Options())
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// startRing is a client that spreads keys over n servers of its own.
func startRing(tb testing.TB, n int) *redis.Ring {
	tb.Helper()
	opts := &redis.RingOptions{Addrs: map[string]string{}}
	for i, s := range startServers(tb, n, serverSpec{}) {
		opts.Addrs["shard"+strconv.Itoa(i)] = s.addr
	}
	rdb := redis.NewRing(opts)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
