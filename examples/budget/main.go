// Budget gives each tenant so many tokens of a language model a minute. What a
// request costs is known only when the model has answered, so the most that it
// can cost is reserved first, and settled afterwards.
//
//	go run ./budget [-redis-addr host:port]
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
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

// A prompt is a request to the model, which here is a fake: it does what the
// prompt says.
type prompt struct {
	tenant string
	most   int // tokens that it may cost
	costs  int // what the model will count
	fails  bool
}

var (
	errModel   = errors.New("cancelled, the model is overloaded")
	errRefused = errors.New("refused")
)

func model(_ context.Context, p prompt) (tokens int, err error) {
	if p.fails {
		return 0, errModel
	}
	return p.costs, nil
}

// complete asks the model if the tenant's budget has room for it, and tells what
// it has used and what is left of the budget.
func complete(ctx context.Context, budget ratelimit.Base, p prompt) (used, left int, err error) {
	reservation, result, err := budget.Reserve(ctx, p.tenant, p.most)
	switch {
	case err != nil:
		return 0, 0, err
	case result.RetryAfter == ratelimit.Never:
		return 0, result.Remaining, fmt.Errorf("%w for ever", errRefused)
	case !result.Allowed: // nothing was taken
		return 0, result.Remaining, fmt.Errorf("%w, wait for %v", errRefused, result.RetryAfter.Round(time.Minute))
	}

	used, failure := model(ctx, p) // 0 if it failed, so that all is given back

	// Also if the caller has gone by now. What is never settled stays taken.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if result, err = budget.Settle(ctx, reservation, used); err != nil {
		return used, 0, err
	}
	return used, result.Remaining, failure
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	redisAddr, err := parse(args)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer rdb.Close()
	tenants := map[string]ratelimit.Limit{"acme": ratelimit.PerMinute(2000), "globex": ratelimit.PerMinute(10_000)}
	budget, err := ratelimit.NewFixedWindow(rdb, ratelimit.LimitFunc(func(_ context.Context, tenant string) (ratelimit.Limit, error) {
		return tenants[tenant], nil
	}), ratelimit.WithPrefix("budget"))
	if err != nil {
		return err
	}
	for tenant := range tenants { // what an earlier run has used
		if err := budget.Reset(ctx, tenant); err != nil {
			return err
		}
	}

	total := map[string]int{}
	for _, p := range []prompt{
		{tenant: "acme", most: 1500, costs: 400},
		{tenant: "globex", most: 4000, costs: 3200},
		{tenant: "acme", most: 1500, costs: 900}, // fits, as 1,100 of the first came back
		{tenant: "acme", most: 1500, costs: 100},
		{tenant: "globex", most: 6000, fails: true},
		{tenant: "acme", most: 600, costs: 800}, // more than it should: a debt
		{tenant: "acme", most: 1, costs: 1},
		{tenant: "acme", most: 3000, costs: 10},
		{tenant: "globex", most: 6800, costs: 6000}, // fits, as the one that failed cost nothing
	} {
		used, left, err := complete(ctx, budget, p)
		said := fmt.Sprintf("used %d", used)
		if errors.Is(err, errModel) || errors.Is(err, errRefused) {
			said = err.Error()
		} else if err != nil {
			return err
		}
		total[p.tenant] += used
		fmt.Fprintf(stdout, "%-6s reserves %4d: %s; left %d\n", p.tenant, p.most, said, left)
	}
	for _, tenant := range []string{"acme", "globex"} {
		fmt.Fprintf(stdout, "%s had %d: %v\n", tenant, total[tenant], tenants[tenant])
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
