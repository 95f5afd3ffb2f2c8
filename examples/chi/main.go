// Chi limits the requests to a chi router: all of them by the client's address,
// a group of routes by organization, and one route by what it costs.
//
//	go run ./chi [-addr host:port] [-redis-addr host:port]
//	curl -i http://localhost:8080/orgs/acme/users
//	curl -i -X POST http://localhost:8080/orgs/acme/reports
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

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

// What a slow Redis may cost a request.
var timeout = 100 * time.Millisecond

// handler is the service behind its limits.
func handler(rdb redis.UniversalClient) (http.Handler, error) {
	clients, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerMinute(120), ratelimit.WithPrefix("chi:client"))
	if err != nil {
		return nil, err
	}
	orgs, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerMinute(12), ratelimit.WithPrefix("chi:org"))
	if err != nil {
		return nil, err
	}
	byClient := httplimit.Middleware{Limiter: clients, Key: httplimit.ByRemoteAddr, Name: "client", Timeout: timeout}
	byOrg := httplimit.Middleware{Limiter: orgs, Key: httplimit.ByPathValue("org"), Name: "org", Timeout: timeout}
	reports := byOrg // the same limit, but a report counts as five
	reports.Cost = func(*http.Request) int { return 5 }

	r := chi.NewRouter()
	r.Use(byClient.Handler)
	r.Get("/", say("hello"))
	r.Route("/orgs/{org}", func(r chi.Router) {
		r.With(byOrg.Handler).Get("/users", say("users"))
		r.With(reports.Handler).Post("/reports", say("a report"))
	})
	return r, nil
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
