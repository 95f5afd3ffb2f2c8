package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A site is servers and the way to them.
type site struct {
	cluster bool
	delay   time.Duration // added to each round trip
	addrs   []string      // where the servers listen
	via     map[string]string
	rdb     redis.UniversalClient // what subjects are given: a client as it comes
	nodes   []*redis.Client       // straight to each server, to ask and to flush it
	closers []func()
}

const clusterNodes = 3

// openSite starts servers, and relays before them if there is to be a delay.
func openSite(ctx context.Context, cluster bool, delay time.Duration) (s *site, err error) {
	s = &site{cluster: cluster, delay: delay, via: map[string]string{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	n := 1
	if cluster {
		n = clusterNodes
	}
	var stop func()
	if s.addrs, stop, err = startNodes(ctx, n); err != nil {
		return s, err
	}
	s.closers = append(s.closers, stop)
	if delay > 0 {
		if s.via, stop, err = startRelay(ctx, s.addrs, delay); err != nil {
			return s, err
		}
		s.closers = append(s.closers, stop)
	}
	for _, addr := range s.addrs {
		node := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: 10 * time.Minute})
		s.closers = append(s.closers, func() { _ = node.Close() })
		s.nodes = append(s.nodes, node)
	}
	if cluster {
		s.rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.addrs, Dialer: s.dialer()})
	} else {
		s.rdb = redis.NewClient(&redis.Options{Addr: s.addrs[0], Dialer: s.dialer()})
	}
	s.closers = append(s.closers, func() { _ = s.rdb.Close() })
	return s, nil
}

// dialer is nil, go-redis's own, but where a relay is to be dialled.
func (s *site) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if len(s.via) == 0 {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{KeepAlive: 5 * time.Minute}).DialContext(ctx, network, s.route(addr))
	}
}

// route is where to dial for a server.
func (s *site) route(addr string) string {
	if relay, ok := s.via[addr]; ok {
		return relay
	}
	return addr
}

func (s *site) String() string {
	where := "standalone"
	if s.cluster {
		where = fmt.Sprintf("cluster of %d", clusterNodes)
	}
	if s.delay > 0 {
		where += fmt.Sprintf(", %v of network delay", s.delay)
	}
	return where
}

// flush empties the servers, which are this program's own. Scripts stay.
func (s *site) flush(ctx context.Context) error {
	var errs []error
	for _, node := range s.nodes {
		errs = append(errs, node.FlushAll(ctx).Err())
	}
	return errors.Join(errs...)
}

// close ends what was started for the site, last first.
func (s *site) close() {
	for _, end := range slices.Backward(s.closers) {
		end()
	}
}

// version is the server's, such as "Redis 7.0.15".
func (s *site) version(ctx context.Context) (string, error) {
	info, err := s.nodes[0].InfoMap(ctx, "server").Result()
	if name := info["Server"]["valkey_version"]; name != "" {
		return "Valkey " + name, err
	}
	return "Redis " + strings.TrimSpace(info["Server"]["redis_version"]), err
}
