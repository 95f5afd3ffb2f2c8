// Quickstart shows the five algorithms deciding on the same bursts of calls.
//
//	go run ./quickstart [-redis-addr host:port]
//
// Without an address it takes the Redis at localhost:6379, or one of its own if
// none answers there.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

const callsPerBurst = 8

// The limit of all five: 5 calls in 2 s, of which the token bucket lets all 5
// through at once, and the leaky bucket, as it is given no Burst, one at a time.
var limit = ratelimit.Per(5, 2*time.Second)

// When the bursts begin.
var schedule = []time.Duration{0, 1300 * time.Millisecond, 2300 * time.Millisecond}

func main() {
	os.Exit(run(os.Args[1:], usualAddr, os.Stdout, os.Stderr))
}

// run is the program; it returns its exit status: 2 for bad input, 1 if Redis
// fails under way. Where args name no Redis, usual is looked at.
func run(args []string, usual string, stdout, stderr io.Writer) int {
	addr, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "quickstart: %v (-h shows the usage)\n", err)
		return 2
	}

	server, err := find(addr, usual)
	if err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
		return 2
	}
	defer server.close()
	fmt.Fprintln(stdout, server.name)

	rdb := redis.NewClient(&redis.Options{Addr: server.addr})
	defer rdb.Close()
	if err := demo(rdb, stdout); err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
		return 1
	}
	return 0
}

// A contender is a limiter and what it made of the bursts.
type contender struct {
	name    string
	limiter *ratelimit.Redis
	bursts  []string
}

// contenders makes one limiter of each algorithm. A service makes the one it
// needs, once, when it starts.
func contenders(rdb redis.UniversalClient) ([]*contender, error) {
	var all []*contender
	for _, c := range []struct {
		name string
		make func(redis.UniversalClient, ratelimit.Limits, ...ratelimit.Option) (*ratelimit.Redis, error)
	}{
		{"token bucket", ratelimit.NewTokenBucket},
		{"leaky bucket", ratelimit.NewLeakyBucket},
		{"fixed window", ratelimit.NewFixedWindow},
		{"sliding window log", ratelimit.NewSlidingWindowLog},
		{"sliding window counter", ratelimit.NewSlidingWindowCounter},
	} {
		limiter, err := c.make(rdb, limit, ratelimit.WithPrefix("quickstart"))
		if err != nil {
			return nil, err
		}
		all = append(all, &contender{name: c.name, limiter: limiter})
	}
	return all, nil
}

// demo lets the same bursts loose on every limiter and shows what passed.
func demo(rdb redis.UniversalClient, stdout io.Writer) error {
	all, err := contenders(rdb)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nEach limiter allows %v. Each gets %d calls at once, three times:\n\n", limit, callsPerBurst)

	ctx := context.Background()
	key := "user:" + rand.Text() // nobody else's
	start := time.Now()
	for _, at := range schedule {
		time.Sleep(time.Until(start.Add(at)))
		for _, c := range all {
			burst, err := shoot(ctx, c.limiter, key)
			if err != nil {
				return err
			}
			c.bursts = append(c.bursts, burst)
		}
	}
	show(all, stdout)

	// The keys would be gone in a few seconds without this as well.
	for _, c := range all {
		if err := c.limiter.Reset(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// allow asks with a deadline, as every service should.
func allow(ctx context.Context, limiter ratelimit.Limiter, key string) (ratelimit.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return limiter.Allow(ctx, key)
}
