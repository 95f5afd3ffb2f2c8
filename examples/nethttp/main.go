// Nethttp limits the requests to a net/http server: all of them by the client's
// address, and logins more strictly.
//
//	go run ./nethttp [-addr host:port] [-redis-addr host:port]
//	curl -i http://localhost:8080/
//	curl -i -X POST http://localhost:8080/login
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

// What a slow Redis may cost a request.
var timeout = 100 * time.Millisecond

// handler is the service behind its limits.
func handler(rdb redis.UniversalClient) (http.Handler, error) {
	requests, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerMinute(30).WithBurst(10), ratelimit.WithPrefix("nethttp"))
	if err != nil {
		return nil, err
	}
	logins, err := ratelimit.NewSlidingWindowLog(rdb, ratelimit.PerMinute(3), ratelimit.WithPrefix("nethttp"))
	if err != nil {
		return nil, err
	}

	// Requests go on when Redis is away, logins do not.
	all := httplimit.Middleware{
		Limiter: requests,
		Key:     httplimit.ByRemoteAddr, // behind a proxy: httplimit.ClientIP
		Timeout: timeout,
		Skip:    func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Failed: func(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
			log.Println("not limited:", err)
			next.ServeHTTP(w, r)
		},
	}
	strict := httplimit.Middleware{
		Limiter: logins,
		Key:     httplimit.ByRemoteAddr,
		Name:    "login",
		Timeout: timeout,
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", say("hello"))
	mux.HandleFunc("GET /healthz", say("well"))
	mux.Handle("POST /login", strict.Handler(say("welcome")))
	return all.Handler(mux), nil
}

func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, text) }
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
