package ratelimit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/weirgo/ratelimit"
)

// countingLimiter tells how many calls come through to a Limiter.
type countingLimiter struct {
	ratelimit.Limiter
	calls int
}

func (c *countingLimiter) Allow(ctx context.Context, key string) (ratelimit.Result, error) {
	return c.AllowN(ctx, key, 1)
}

func (c *countingLimiter) AllowN(ctx context.Context, key string, n int) (ratelimit.Result, error) {
	c.calls++
	return c.Limiter.AllowN(ctx, key, n)
}

// A flood of calls that are refused does not reach Redis.
func ExampleDenyCache() {
	ctx, rdb, user := context.Background(), newClient(), newUser()
	defer rdb.Close()
	inRedis, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(3))
	if err != nil {
		log.Fatal(err)
	}
	counting := &countingLimiter{Limiter: inRedis}
	limiter := &ratelimit.DenyCache{Limiter: counting}

	allowed := 0
	for range 10_000 {
		result, err := limiter.Allow(ctx, "user:"+user)
		if err != nil {
			log.Fatal(err)
		}
		if result.Allowed {
			allowed++
		}
	}
	fmt.Println("allowed:", allowed)
	fmt.Println("asked Redis:", counting.calls)
	// Output:
	// allowed: 3
	// asked Redis: 4
}
