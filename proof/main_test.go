package proof

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const (
	addrEnv    = "RATELIMIT_REDIS_ADDR"  // host:port of a running Redis
	imageEnv   = "RATELIMIT_REDIS_IMAGE" // image of the container
	requireEnv = "RATELIMIT_REQUIRE"     // addr, process or container: that way or none
)

// sharedRedis is the Redis of all tests, found before the first of them starts.
var sharedRedis *redis.Client

// TestMain finds a Redis: the one at RATELIMIT_REDIS_ADDR, else a process of the
// tests' own, else a container. Without any it fails, for a skipped test proves nothing.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	redis.SetLogger(&logging.VoidLogger{}) // it tells of every dial that fails
	options, remove, err := findRedis()
	if err != nil {
		fmt.Fprintf(os.Stderr, "proof: %v\n", err)
		return 1
	}
	defer remove()
	options.PoolSize = 100 // a caller that waits for a connection overlaps with nobody in Redis
	sharedRedis = redis.NewClient(options)
	defer sharedRedis.Close()
	return m.Run()
}

func findRedis() (options *redis.Options, remove func(), err error) {
	only := os.Getenv(requireEnv)
	if addr := os.Getenv(addrEnv); addr != "" && (only == "" || only == "addr") {
		options := &redis.Options{Addr: addr}
		return options, func() {}, awaitPing(options)
	}
	var tried []error
	for _, way := range []struct {
		name  string
		start func() (*redis.Options, func(), error)
	}{{"process", startProcess}, {"container", startContainer}} {
		if only != "" && only != way.name {
			continue
		}
		options, remove, err := way.start()
		if err == nil {
			if err = awaitPing(options); err == nil {
				return options, remove, nil
			}
			remove()
		}
		tried = append(tried, fmt.Errorf("%s: %w", way.name, err))
	}
	if len(tried) == 0 {
		tried = append(tried, errors.New("that way there is none"))
	}
	return nil, nil, fmt.Errorf("the tests need a Redis: put redis-server or valkey-server on PATH, start Docker, "+
		"or set %s=host:port (%s=%s: %w)", addrEnv, requireEnv, only, errors.Join(tried...))
}

// awaitPing waits until the server answers.
func awaitPing(options *redis.Options) error {
	rdb := redis.NewClient(options)
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		err := rdb.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", options.Addr, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
