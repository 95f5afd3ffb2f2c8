package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

const usualAddr = "localhost:6379"

// redisOptions is what the -redis flags ask for, nil if they are not given.
func redisOptions(host, port, url string) (*redis.Options, error) {
	switch {
	case url != "" && (host != "" || port != ""):
		return nil, errors.New("-redis-url says it all; it goes without -redis-host and -redis-port")
	case url != "":
		opts, err := redis.ParseURL(url)
		if err != nil { // may quote the URL, and the password in it
			return nil, errors.New("-redis-url must be redis://user:password@host:port/db, or rediss:// for TLS")
		}
		return opts, nil
	case host == "" && port == "":
		return nil, nil //nolint:nilnil // no wish
	}
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "6379"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("-redis-port is %q, it must be 1 to 65535", port)
	}
	return &redis.Options{Addr: net.JoinHostPort(host, port)}, nil
}

// A source is a Redis to show the limiters on.
type source struct {
	rdb      *redis.Client
	name     string // what it is and where
	embedded bool
	close    func()
}

// find is the Redis of opts, whether it answers or not; if opts is nil, the one
// at usual, or an embedded one.
func find(ctx context.Context, opts *redis.Options, usual string) (*source, error) {
	if opts != nil {
		return connect(ctx, opts), nil
	}
	s := connect(ctx, &redis.Options{Addr: usual})
	if s.rdb.Ping(ctx).Err() == nil {
		return s, nil
	}
	s.close()

	server, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("no Redis at %s, and miniredis did not start: %w", usual, err)
	}
	server.ClockTTL(true) // keys expire as time goes by
	s = connect(ctx, &redis.Options{Addr: server.Addr()})
	s.name = "miniredis" + miniredisVersion() + ", embedded: no Redis answers at " + usual
	s.embedded = true
	s.close = func() {
		s.rdb.Close()
		server.Close()
	}
	return s, nil
}

// connect makes a client that gives up early, as the page is to tell of a
// Redis that is away within a second.
func connect(ctx context.Context, opts *redis.Options) *source {
	opts.DialTimeout = 500 * time.Millisecond
	opts.DialerRetries = 1
	opts.ReadTimeout = 500 * time.Millisecond
	opts.WriteTimeout = 500 * time.Millisecond
	opts.MaxRetries = -1
	opts.PoolSize = 20
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	s := &source{rdb: rdb, close: func() { rdb.Close() }}
	s.name = s.version(ctx) + " at " + opts.Addr
	return s
}

// version asks the server what it is; "Redis" if it does not say.
func (s *source) version(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	fields := map[string]string{}
	for line := range strings.Lines(s.rdb.Info(ctx, "server").Val()) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[key] = value
	}
	// Those that stand in for Redis tell also which Redis they are like.
	for _, kind := range [][2]string{{"Valkey", "valkey_version"}, {"Dragonfly", "dragonfly_version"}, {"Redis", "redis_version"}} {
		if version := fields[kind[1]]; version != "" {
			return kind[0] + " " + version
		}
	}
	return "Redis"
}

func miniredisVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/alicebob/miniredis/v2" {
				return " " + module.Version
			}
		}
	}
	return ""
}
