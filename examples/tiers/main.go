// Tiers keeps to several limits at once: each user may make 10 calls a second
// and 1,000 a day, its tenant so many a minute, and all tenants together too. A
// call takes from all of them or, if one refuses, from none; in one round trip.
// Of a cluster it takes two or more addresses, of other servers one.
//
//	go run ./tiers [-redis-addrs host:port,...]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

type tiers struct {
	perSecond, perDay, tenant, all *ratelimit.Redis
}

// requests asks all tiers for a call that costs n. The keys begin with the same
// hash tag, {api}, so that they lie on one node of a cluster: as one of them is
// everybody's, so does all else.
func (t tiers) requests(user, tenant string, n int) []ratelimit.Request {
	return []ratelimit.Request{
		{Limiter: t.perSecond, Key: "{api}" + user, N: 1},
		{Limiter: t.perDay, Key: "{api}" + user, N: 1},
		{Limiter: t.tenant, Key: "{api}" + tenant, N: n},
		{Limiter: t.all, Key: "{api}", N: n},
	}
}

func newTiers(rdb redis.UniversalClient) (t tiers, err error) {
	prefix := func(p string) ratelimit.Option { return ratelimit.WithPrefix("tiers:" + p) }
	var errs [4]error
	t.perSecond, errs[0] = ratelimit.NewSlidingWindowLog(rdb, ratelimit.PerSecond(10), prefix("second"))
	t.perDay, errs[1] = ratelimit.NewFixedWindow(rdb, ratelimit.PerDay(1000), prefix("day"))
	t.tenant, errs[2] = ratelimit.NewFixedWindow(rdb, ratelimit.PerMinute(20), prefix("tenant"))
	t.all, errs[3] = ratelimit.NewFixedWindow(rdb, ratelimit.PerMinute(30), prefix("all"))
	return t, errors.Join(errs[:]...)
}

// exhaust makes calls until one is refused. It prints the Result that decides,
// and what each limit alone says.
func exhaust(stdout io.Writer, call func() (ratelimit.Result, []ratelimit.Result, error)) error {
	for calls := 1; ; calls++ {
		result, each, err := call()
		if err != nil {
			return err
		}
		if result.Allowed {
			continue
		}
		fmt.Fprintf(stdout, "  call %d is refused: %s\n", calls, describe(result))
		for _, r := range each {
			fmt.Fprintf(stdout, "    %s\n", describe(r))
		}
		return nil
	}
}

func describe(r ratelimit.Result) string {
	if r.Allowed {
		return fmt.Sprintf("%v would do, left %d", r.Limit, r.Remaining)
	}
	return fmt.Sprintf("%v refuses, left %d, wait %.0fs", r.Limit, r.Remaining, math.Ceil(r.RetryAfter.Seconds()))
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	addrs, err := parse(args)
	if err != nil {
		return err
	}
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs})
	defer rdb.Close()
	t, err := newTiers(rdb)
	if err != nil {
		return err
	}
	user, err := ratelimit.All(t.perSecond, t.perDay) // a Limiter as any other
	if err != nil {
		return err
	}
	for _, key := range []string{"{api}ada", "{api}bob", "{api}eve", "{api}acme", "{api}globex", "{api}"} {
		// What an earlier run has used.
		if err := errors.Join(user.Reset(ctx, key), t.tenant.Reset(ctx, key), t.all.Reset(ctx, key)); err != nil {
			return err
		}
	}

	fmt.Fprintln(stdout, "ada, by the limits of a user")
	if err := exhaust(stdout, func() (ratelimit.Result, []ratelimit.Result, error) {
		return user.AllowNResults(ctx, "{api}ada", 1)
	}); err != nil {
		return err
	}
	for _, who := range []struct{ user, tenant string }{{"bob", "acme"}, {"eve", "globex"}} {
		fmt.Fprintf(stdout, "%s of %s, by all limits; a call costs the tenant 5\n", who.user, who.tenant)
		if err := exhaust(stdout, func() (ratelimit.Result, []ratelimit.Result, error) {
			return ratelimit.AllowAll(ctx, t.requests(who.user, who.tenant, 5)...)
		}); err != nil {
			return err
		}
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
