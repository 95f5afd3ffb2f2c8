// Cluster limits on a Redis Cluster: each key lives on one of the masters, keys
// spread over all of them, and the limiter is used as ever.
//
//	go run ./cluster [-redis-addrs host:port,host:port]
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

const (
	users = 12
	calls = 8 // of each user
	limit = 5
)

func run(ctx context.Context, args []string, stdout io.Writer) error {
	addrs, err := parse(args)
	if err != nil {
		return err
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer rdb.Close()
	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(limit), ratelimit.WithPrefix("cluster"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	visit := rand.Text() // new users each time
	keysOf := map[string]int{}
	for i := range users {
		key := fmt.Sprintf("user:%s:%d", visit, i+1)
		allowed, err := spend(ctx, limiter, key)
		if err != nil {
			return err
		}
		// Its state is under cluster:token_bucket:{key}, so that key alone chooses the master.
		master, err := rdb.MasterForKey(ctx, key)
		if err != nil {
			return err
		}
		keysOf[master.Options().Addr]++
		fmt.Fprintf(stdout, "user %2d: %d of %d allowed, on %s\n", i+1, allowed, calls, master.Options().Addr)
		if err := limiter.Reset(ctx, key); err != nil {
			return err
		}
	}
	for _, master := range slices.Sorted(maps.Keys(keysOf)) {
		fmt.Fprintf(stdout, "%s kept %d keys\n", master, keysOf[master])
	}
	return nil
}

// spend makes calls, and counts those that are allowed.
func spend(ctx context.Context, limiter ratelimit.Limiter, key string) (allowed int, err error) {
	for range calls {
		result, err := limiter.Allow(ctx, key)
		if err != nil {
			return allowed, err
		}
		if result.Allowed {
			allowed++
		}
	}
	return allowed, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println(errUsage)
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case err != nil:
		log.Fatal(err)
	}
}
