package ratelimit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weirgo/ratelimit"
)

// countingLimits tells how often a limiter was asked, for it asks for the limit
// each time.
type countingLimits struct {
	limit ratelimit.Limit
	calls int
}

func (c *countingLimits) LimitFor(context.Context, string) (ratelimit.Limit, error) {
	c.calls++
	return c.limit, nil
}

// A hot key is decided in process, with units that are taken in blocks.
func ExampleLease() {
	ctx, rdb, tenant := context.Background(), newClient(), newUser()
	defer rdb.Close()
	limits := &countingLimits{limit: ratelimit.PerHour(1_000_000)}
	inRedis, err := ratelimit.NewSlidingWindowLog(rdb, limits)
	if err != nil {
		log.Fatal(err)
	}
	limiter := &ratelimit.Lease{Limiter: inRedis}

	allowed := 0
	for range 10_000 {
		result, err := limiter.Allow(ctx, "tenant:"+tenant)
		if err != nil {
			log.Fatal(err)
		}
		if result.Allowed {
			allowed++
		}
	}
	fmt.Println("allowed:", allowed)
	fmt.Println("asked Redis less than 100 times:", limits.calls < 100)

	// When the service stops, what is left may go to others at once.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := limiter.Release(ctx); err != nil {
		log.Print(err)
	}
	// Output:
	// allowed: 10000
	// asked Redis less than 100 times: true
}
