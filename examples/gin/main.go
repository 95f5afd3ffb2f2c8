// Gin limits the requests to a gin router: all of them by the client's address,
// and one route more strictly.
//
//	go run ./gin [-addr host:port] [-redis-addr host:port]
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

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

// What a slow Redis may cost a request.
var timeout = 100 * time.Millisecond

type passedKey struct{}

// use makes a middleware of net/http one of gin's.
func use(middleware func(http.Handler) http.Handler) gin.HandlerFunc {
	handler := middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if passed, ok := r.Context().Value(passedKey{}).(*bool); ok {
			*passed = true
		}
	}))
	return func(c *gin.Context) {
		passed := false
		ctx := context.WithValue(c.Request.Context(), passedKey{}, &passed)
		handler.ServeHTTP(c.Writer, c.Request.WithContext(ctx))
		if !passed {
			c.Abort() // it has answered
		}
	}
}

// handler is the service behind its limits.
func handler(rdb redis.UniversalClient) (http.Handler, error) {
	requests, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerMinute(30).WithBurst(10), ratelimit.WithPrefix("gin"))
	if err != nil {
		return nil, err
	}
	logins, err := ratelimit.NewSlidingWindowLog(rdb, ratelimit.PerMinute(3), ratelimit.WithPrefix("gin"))
	if err != nil {
		return nil, err
	}
	all := httplimit.Middleware{Limiter: requests, Key: httplimit.ByRemoteAddr, Timeout: timeout}
	strict := httplimit.Middleware{Limiter: logins, Key: httplimit.ByRemoteAddr, Name: "login", Timeout: timeout}

	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(gin.Recovery(), use(all.Handler))
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello\n") })
	router.POST("/login", use(strict.Handler), func(c *gin.Context) { c.String(http.StatusOK, "welcome\n") })
	return router, nil
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
