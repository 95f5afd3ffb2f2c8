package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/weirgo/ratelimit"
)

// While Redis is away, everybody passes. The callbacks say so in the log, as a
// limiter that is off and silent is found out too late.
func ExampleFallback() {
	ctx, rdb := context.Background(), newClientOfNothing()
	defer rdb.Close()
	shared, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerSecond(10))
	if err != nil {
		log.Fatal(err)
	}

	limiter := &ratelimit.Fallback{
		Primary:   shared,
		Secondary: ratelimit.FailOpen,
		OnStateChange: func(from, to ratelimit.BreakerState, cause error) {
			log.Printf("rate limiter: Redis was %v, is %v: %v", from, to, cause)
		},
	}
	result, err := limiter.Allow(ctx, "user:12345")

	fmt.Println(result.Allowed, result.Fallback, err)
	// Output: true true <nil>
}

// While Redis is away, nobody passes, and everybody is told to come back in a
// second.
func ExampleFallback_failClosed() {
	ctx, rdb := context.Background(), newClientOfNothing()
	defer rdb.Close()
	shared, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerMinute(5))
	if err != nil {
		log.Fatal(err)
	}

	limiter := &ratelimit.Fallback{Primary: shared, Secondary: ratelimit.FailClosed}
	result, err := limiter.Allow(ctx, "login:12345")

	fmt.Println(result.Allowed, result.RetryAfter, result.Fallback, err)
	// Output: false 1s true <nil>
}

// While Redis is away, each of four replicas lets its share through.
func ExampleFallback_memory() {
	ctx, rdb := context.Background(), newClientOfNothing()
	defer rdb.Close()

	limit, replicas := ratelimit.PerMinute(100).WithBurst(10), 4
	shared, err := ratelimit.NewTokenBucket(rdb, limit)
	if err != nil {
		log.Fatal(err)
	}
	local, err := ratelimit.NewMemory(ratelimit.TokenBucket, limit.Share(replicas))
	if err != nil {
		log.Fatal(err)
	}
	limiter := &ratelimit.Fallback{Primary: shared, Secondary: local}

	for range 4 {
		result, err := limiter.Allow(ctx, "user:12345")
		fmt.Println(result.Allowed, result.Limit, err)
	}
	// Output:
	// true 25 per 1m, burst 3 <nil>
	// true 25 per 1m, burst 3 <nil>
	// true 25 per 1m, burst 3 <nil>
	// false 25 per 1m, burst 3 <nil>
}

// While one Redis is away, another counts, from zero; and if that is away as
// well, everybody passes.
func ExampleFallback_anotherRedis() {
	ctx, user := context.Background(), newUser()
	east, west := newClientOfNothing(), newClient()
	defer east.Close()
	defer west.Close()
	limit := ratelimit.PerHour(100)

	primary, err := ratelimit.NewTokenBucket(east, limit)
	if err != nil {
		log.Fatal(err)
	}
	standby, err := ratelimit.NewTokenBucket(west, limit)
	if err != nil {
		log.Fatal(err)
	}
	limiter := &ratelimit.Fallback{
		Primary: primary,
		Secondary: &ratelimit.Fallback{
			Primary:   standby,
			Secondary: ratelimit.FailOpen,
			Timeout:   time.Second,
		},
	}
	result, err := limiter.Allow(ctx, "user:"+user)

	fmt.Println(result.Allowed, result.Remaining, result.Fallback, err)
	// Output: true 99 true <nil>
}

// After a few failures Redis is left alone for a while, and calls cost nothing
// but the other decision.
func ExampleFallback_State() {
	ctx := context.Background()
	var asked atomic.Int64
	away := ratelimit.LimitFunc(func(context.Context, string) (ratelimit.Limit, error) {
		asked.Add(1)
		return ratelimit.Limit{}, errors.New("away")
	})
	primary, err := ratelimit.NewMemory(ratelimit.TokenBucket, away)
	if err != nil {
		log.Fatal(err)
	}

	limiter := &ratelimit.Fallback{Primary: primary, Secondary: ratelimit.FailOpen, Failures: 3, Cooldown: time.Minute}
	for range 100 {
		if _, err := limiter.Allow(ctx, "user:12345"); err != nil {
			log.Fatal(err)
		}
	}

	fmt.Println(limiter.State(), "after", asked.Load(), "failures")
	// Output: open after 3 failures
}

func ExampleFailOpen() {
	result, err := ratelimit.FailOpen.Allow(context.Background(), "user:12345")
	fmt.Println(result.Allowed, result.Limit, err)
	// Output: true unlimited <nil>
}

func ExampleFailClosed() {
	result, err := ratelimit.FailClosed.Allow(context.Background(), "user:12345")
	fmt.Println(result.Allowed, result.RetryAfter, err)
	// Output: false 1s <nil>
}

// Each of three replicas gets a third, rounded up.
func ExampleLimit_Share() {
	fmt.Println(ratelimit.PerMinute(100).WithBurst(20).Share(3))
	// Output: 34 per 1m, burst 7
}
