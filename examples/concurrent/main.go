// Concurrent lets 20 goroutines share a limiter. However they race, exactly the
// limit is admitted; and were they in 20 processes, it would be the same.
//
//	go run ./concurrent [-redis-addr host:port]
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

const (
	workers = 20
	calls   = 25 // of each worker
	limit   = 100
)

// race has all workers call at once, and counts the decisions.
func race(ctx context.Context, limiter ratelimit.Limiter, key string) (allowed, refused int64, err error) {
	var a, r atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, workers)
	for range workers {
		wg.Go(func() {
			for range calls {
				result, err := limiter.Allow(ctx, key) // a limiter is safe to share
				switch {
				case err != nil:
					errs <- err
					return
				case result.Allowed:
					a.Add(1)
				default:
					r.Add(1)
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return a.Load(), r.Load(), <-errs // nil if there was none
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	redisAddr, err := parse(args)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer rdb.Close()
	limiter, err := ratelimit.NewSlidingWindowLog(rdb, ratelimit.PerMinute(limit), ratelimit.WithPrefix("concurrent"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	start := time.Now()
	key := "race:" + rand.Text() // a new one each time
	allowed, refused, err := race(ctx, limiter, key)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d goroutines, %d calls, limit %d: %d allowed, %d refused, in %v\n",
		workers, workers*calls, limit, allowed, refused, time.Since(start).Round(time.Millisecond))
	if allowed != limit {
		return fmt.Errorf("%d were allowed, not %d", allowed, limit)
	}
	return limiter.Reset(ctx, key)
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
