// Failopen shows what becomes of requests while Redis is away or hangs: they pass
// (/open), they are refused (/closed), or a limiter in memory decides (/fallback).
// None of them waits longer than 100 ms. Stop Redis, ask, and start it again.
//
//	go run ./failopen [-addr host:port] [-redis-addr host:port]
//	curl -i http://localhost:8080/open
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

const timeout = 100 * time.Millisecond

// A fallback asks the local limiter where the shared one has no answer in time.
// It is a Limiter itself; Peek and Reset are the shared one's.
type fallback struct {
	ratelimit.Limiter // shared
	local             ratelimit.Limiter
}

func (f fallback) Allow(ctx context.Context, key string) (ratelimit.Result, error) {
	return f.AllowN(ctx, key, 1)
}

func (f fallback) AllowN(ctx context.Context, key string, n int) (ratelimit.Result, error) {
	short, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := f.Limiter.AllowN(short, key, n)
	if err != nil { // a refusal is no error
		return f.local.AllowN(ctx, key, n)
	}
	return result, nil
}

// handler is the service behind its limits.
func handler(rdb redis.UniversalClient) (http.Handler, error) {
	limit := ratelimit.PerMinute(5)
	shared, err := ratelimit.NewSlidingWindowCounter(rdb, limit, ratelimit.WithPrefix("failopen"))
	if err != nil {
		return nil, err
	}
	local, err := ratelimit.NewMemory(ratelimit.SlidingWindowCounter, limit)
	if err != nil {
		return nil, err
	}
	key := httplimit.Join(httplimit.ByPattern, httplimit.ByRemoteAddr)
	open := httplimit.Middleware{Limiter: shared, Key: key, Timeout: timeout, Failed: httplimit.FailOpen}
	closed := httplimit.Middleware{Limiter: shared, Key: key, Timeout: timeout, Failed: httplimit.FailClosed}
	both := httplimit.Middleware{Limiter: fallback{shared, local}, Key: key}

	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	mux := http.NewServeMux()
	mux.Handle("GET /open", open.Handler(hello))
	mux.Handle("GET /closed", closed.Handler(hello))
	mux.Handle("GET /fallback", both.Handler(hello))
	return mux, nil
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

// run serves until ctx ends, and then finishes what it has begun.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	addr, redisAddr, err := parse(args)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer rdb.Close()
	limited, err := handler(rdb)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())

	server := &http.Server{Handler: limited, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}
