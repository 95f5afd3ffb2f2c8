// Fiber limits the requests to a fiber app: all of them by the client's address,
// and one route more strictly.
//
//	go run ./fiber [-addr host:port] [-redis-addr host:port]
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

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

// What a slow Redis may cost a request.
var timeout = 100 * time.Millisecond

// use makes a middleware of net/http one of fiber's. The request's context is
// fasthttp's, which is used again for the next request: a decision that comes
// too late must not look at it.
func use(middleware func(http.Handler) http.Handler) fiber.Handler {
	return adaptor.HTTPMiddleware(func(next http.Handler) http.Handler {
		limited := middleware(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limited.ServeHTTP(w, r.WithContext(context.Background()))
		})
	})
}

// service is the service behind its limits.
func service(rdb redis.UniversalClient) (*fiber.App, error) {
	requests, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerMinute(30).WithBurst(10), ratelimit.WithPrefix("fiber"))
	if err != nil {
		return nil, err
	}
	logins, err := ratelimit.NewSlidingWindowLog(rdb, ratelimit.PerMinute(3), ratelimit.WithPrefix("fiber"))
	if err != nil {
		return nil, err
	}
	all := httplimit.Middleware{Limiter: requests, Key: httplimit.ByRemoteAddr, Timeout: timeout}
	strict := httplimit.Middleware{Limiter: logins, Key: httplimit.ByRemoteAddr, Name: "login", Timeout: timeout}

	app := fiber.New(fiber.Config{ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second})
	app.Use(use(all.Handler))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello\n") })
	app.Post("/login", use(strict.Handler), func(c fiber.Ctx) error { return c.SendString("welcome\n") })
	return app, nil
}

// run serves until ctx ends, and then finishes what it has begun.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	addr, redisAddr, err := parse(args)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer rdb.Close()
	app, err := service(rdb)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())

	failed := make(chan error, 1)
	go func() { failed <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	return app.ShutdownWithTimeout(10 * time.Second) // GracefulContext would not wait for the last requests
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
