// Demo is a web page that shows the five algorithms side by side, under the
// same traffic, on a real Redis.
//
//	go run ./demo
//
// and then http://localhost:8080. Without a Redis on localhost:6379, and if
// none is named, it brings an embedded one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const usage = `usage: demo [flags]

Shows the five algorithms of the rate limiter under the same traffic, on a web
page. It keeps five keys in Redis, demo:<algorithm>:{<key>}, which expire.

  -host name        listen on this address (localhost)
  -port number      and this port; 0 takes a free one (8080)
  -redis-host name  the Redis to use (localhost)
  -redis-port n     and its port (6379)
  -redis-url url    or all of it: redis://user:password@host:port/db

Without a -redis flag it takes the Redis on localhost:6379, or an embedded
miniredis if none answers there.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	redis.SetLogger(&logging.VoidLogger{}) // the page tells of failures
	os.Exit(run(ctx, os.Args[1:], usualAddr, os.Stdout, os.Stderr))
}

// run is the program until ctx ends; it returns its exit status: 2 for bad
// input, 1 if it can't listen or does not come to an end. Where args name no
// Redis, the one at usual is looked for.
func run(ctx context.Context, args []string, usual string, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "demo: %v (-h shows the usage)\n", err)
		return 2
	}
	if err := serve(ctx, opts, usual, stdout); err != nil {
		fmt.Fprintln(stderr, "demo:", err)
		return 1
	}
	return 0
}

type options struct {
	host  string
	port  int
	redis *redis.Options // nil: look for one
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.host, "host", "localhost", "")
	port := flags.String("port", "8080", "")
	redisHost := flags.String("redis-host", "", "")
	redisPort := flags.String("redis-port", "", "")
	redisURL := flags.String("redis-url", "", "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	n, err := strconv.ParseUint(*port, 10, 16)
	if err != nil {
		return o, fmt.Errorf("-port is %q, it must be 0 to 65535", *port)
	}
	o.port = int(n)
	if o.host == "" {
		return o, errors.New(`-host is empty; to listen everywhere use 0.0.0.0`)
	}
	o.redis, err = redisOptions(*redisHost, *redisPort, *redisURL)
	return o, err
}

// serve listens until ctx ends, and then lets go of everything.
func serve(ctx context.Context, opts options, usual string, stdout io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(opts.host, strconv.Itoa(opts.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	source, err := find(ctx, opts.redis, usual)
	if err != nil {
		return err
	}
	defer source.close()
	d, err := start(source)
	if err != nil {
		return err
	}
	defer d.stop()

	server := &http.Server{
		Handler:           d.handler(isLoopback(listener.Addr())),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second, // an event stream lifts this one
		WriteTimeout:      10 * time.Second, // and moves this one on
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "http://%s shows %s\n", net.JoinHostPort(opts.host, port), source.name)
	if !isLoopback(listener.Addr()) {
		fmt.Fprintln(stdout, "Whoever reaches this address can use it.")
	}

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	d.stop() // ends the event streams, for which Shutdown would wait
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		server.Close()
		return fmt.Errorf("some requests had to be cut off: %w", err)
	}
	return nil
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
