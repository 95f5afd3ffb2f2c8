// Tenants gives each tenant the limit of its plan, and changes plans while the
// limiter runs: a change counts from the next call on.
//
//	go run ./tenants [-redis-addr host:port]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

var errNoPlan = errors.New("the tenant has no plan")

// plans knows the limit of each tenant. It is asked at every call, so it looks
// into maps; a service would fill them from its database now and then.
type plans struct {
	mu     sync.RWMutex
	limits map[string]ratelimit.Limit // by plan
	plan   map[string]string          // by tenant
}

// limit is a ratelimit.LimitFunc.
func (p *plans) limit(_ context.Context, tenant string) (ratelimit.Limit, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	limit, ok := p.limits[p.plan[tenant]]
	if !ok {
		return ratelimit.Limit{}, errNoPlan // if you fail open, give strangers a limit and no error
	}
	return limit, nil
}

// set changes the maps while calls go on.
func (p *plans) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	redisAddr, err := parse(args)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer rdb.Close()
	p := &plans{
		limits: map[string]ratelimit.Limit{
			"free":      ratelimit.PerMinute(3),
			"pro":       ratelimit.PerMinute(10),
			"internal":  ratelimit.Unlimited,
			"suspended": ratelimit.PerMinute(0),
		},
		plan: map[string]string{"acme": "free", "globex": "pro", "ops": "internal", "spam": "suspended"},
	}
	limiter, err := ratelimit.NewFixedWindow(rdb, ratelimit.LimitFunc(p.limit), ratelimit.WithPrefix("tenants"))
	if err != nil {
		return err
	}
	for tenant := range p.plan { // what an earlier run has used
		if err := limiter.Reset(ctx, tenant); err != nil {
			return err
		}
	}

	if err := show(ctx, stdout, limiter, "plans by tenant", "acme", "globex", "ops", "spam"); err != nil {
		return err
	}
	p.set(func() { p.plan["acme"] = "pro" })
	if err := show(ctx, stdout, limiter, "acme upgrades to pro; what it has used still counts", "acme"); err != nil {
		return err
	}
	p.set(func() { p.limits["pro"] = ratelimit.PerMinute(15) })
	if err := show(ctx, stdout, limiter, "pro gets 15 a minute", "acme", "globex"); err != nil {
		return err
	}
	_, err = limiter.Allow(ctx, "nobody") // what the LimitFunc says comes through
	fmt.Fprintln(stdout, err)
	return nil
}

// show has each tenant make 20 calls.
func show(ctx context.Context, stdout io.Writer, limiter ratelimit.Limiter, news string, tenants ...string) error {
	fmt.Fprintln(stdout, news)
	for _, tenant := range tenants {
		var limit ratelimit.Limit
		allowed := 0
		for range 20 {
			result, err := limiter.Allow(ctx, tenant)
			if err != nil {
				return err
			}
			if result.Allowed {
				allowed++
			}
			limit = result.Limit
		}
		fmt.Fprintf(stdout, "  %-7s %2d of 20 allowed: %v\n", tenant, allowed, limit)
	}
	return nil
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
