// Worker works off jobs that each need a call of somebody else's API, which takes
// 20 calls a second and refuses more. However many workers there are, in however
// many processes, they wait for their turn and none is refused.
//
//	go run ./worker [-redis-addr host:port] [-api url] [-workers n] [-jobs n]
//
// Without -api it calls an API of its own. To share one, start a few with the
// same -api.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

const quota = 20 // calls a second

// An api is called no more often than its quota allows.
type api struct {
	url     string
	limiter ratelimit.Limiter
}

// newAPI paces the calls evenly, and for a little less than the quota: the third
// party counts them when they arrive, and some travel faster than others.
func newAPI(rdb redis.UniversalClient, url string) (*api, error) {
	limiter, err := ratelimit.NewLeakyBucket(rdb, ratelimit.PerSecond(quota*8/10), ratelimit.WithPrefix("worker"))
	return &api{url, limiter}, err
}

// call waits for its turn, if the deadline of ctx leaves the time.
func (a *api) call(ctx context.Context) error {
	if _, err := ratelimit.Wait(ctx, a.limiter, a.url); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s: %s", a.url, response.Status)
	}
	return nil
}

// work has workers do all jobs. After an error no new one is begun.
func work(ctx context.Context, a *api, workers, jobs int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan int, jobs)
	for job := range jobs {
		queue <- job
	}
	close(queue)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for job := range queue {
				short, done := context.WithTimeout(ctx, time.Minute)
				err := a.call(short)
				done()
				if err != nil {
					cancel(fmt.Errorf("job %d: %w", job, err))
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: o.redisAddr})
	defer rdb.Close()
	own := new(thirdParty)
	if o.api == "" {
		server := httptest.NewServer(own)
		defer server.Close()
		o.api = server.URL
	}
	a, err := newAPI(rdb, o.api)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := work(ctx, a, o.workers, o.jobs); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d workers, %d jobs in %v\n", o.workers, o.jobs, time.Since(start).Round(time.Millisecond))
	if served, refused := own.counts(); served+refused > 0 {
		fmt.Fprintf(stdout, "the API served %d and refused %d\n", served, refused)
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
