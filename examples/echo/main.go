// Echo limits the requests to an echo server: all of them by the client's
// address, and a group of routes by organization.
//
//	go run ./echo [-addr host:port] [-redis-addr host:port]
//	curl -i http://localhost:8080/
//	curl -i http://localhost:8080/orgs/acme/users
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

	"github.com/labstack/echo/v5"
	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

// What a slow Redis may cost a request.
var timeout = 100 * time.Millisecond

// service is the service behind its limits.
func service(rdb redis.UniversalClient) (*echo.Echo, error) {
	clients, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerMinute(120), ratelimit.WithPrefix("echo:client"))
	if err != nil {
		return nil, err
	}
	orgs, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerMinute(12), ratelimit.WithPrefix("echo:org"))
	if err != nil {
		return nil, err
	}
	byClient := httplimit.Middleware{Limiter: clients, Key: httplimit.ByRemoteAddr, Name: "client", Timeout: timeout}
	byOrg := httplimit.Middleware{Limiter: orgs, Key: httplimit.ByPathValue("org"), Name: "org", Timeout: timeout}

	e := echo.New()
	e.Use(echo.WrapMiddleware(byClient.Handler))
	e.GET("/", say("hello"))
	org := e.Group("/orgs/:org", echo.WrapMiddleware(byOrg.Handler))
	org.GET("/users", say("users"))
	org.POST("/reports", say("a report"))
	return e, nil
}

func say(text string) echo.HandlerFunc {
	return func(c *echo.Context) error { return c.String(http.StatusOK, text+"\n") }
}

// run serves until ctx ends, and then finishes what it has begun.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	addr, redisAddr, err := parse(args)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer rdb.Close()
	e, err := service(rdb)
	if err != nil {
		return err
	}
	server := echo.StartConfig{
		Address:          addr,
		HideBanner:       true,
		HidePort:         true,
		GracefulTimeout:  10 * time.Second,
		ListenerAddrFunc: func(a net.Addr) { fmt.Fprintf(stdout, "listening on http://%s\n", a) },
		BeforeServeFunc: func(s *http.Server) error {
			s.ReadTimeout, s.WriteTimeout = 5*time.Second, 10*time.Second
			return nil
		},
	}
	return server.Start(ctx, e)
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
