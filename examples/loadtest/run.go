package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const usualAddr = "localhost:6379"

const usage = `usage: loadtest [-redis-addr host:port]

Spikes a web server behind each of the five algorithms. It takes about 7 seconds.

  -redis-addr host:port
        the Redis to use; if not given, the one at ` + usualAddr + `,
        or an embedded miniredis if none answers there
`

// run is the program; it returns its exit status: 2 for bad input, 1 if
// something fails under way. Where args name no Redis, usual is looked at.
func run(args []string, usual string, stdout, stderr io.Writer) int {
	addr, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "loadtest: %v (-h shows the usage)\n", err)
		return 2
	}
	redis.SetLogger(&logging.VoidLogger{}) // a failure is told in one line, by us
	rdb, stop, err := connect(addr, usual, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "loadtest:", err)
		return 2
	}
	defer stop()
	if err := compare(rdb, stdout); err != nil {
		fmt.Fprintln(stderr, "loadtest:", err)
		return 1
	}
	return 0
}

// parse is the address that args ask for, "" if none.
func parse(args []string) (addr string, err error) {
	flags := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("redis-addr", "", func(s string) error {
		addr = s
		host, port, err := net.SplitHostPort(s)
		if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || host == "" || n == 0 {
			return errors.New("it must be host:port")
		}
		return nil
	})
	err = flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return addr, err
}

// connect finds the Redis at addr; if that is "", the one at usual, or an
// embedded one.
func connect(addr, usual string, stdout io.Writer) (rdb *redis.Client, stop func(), err error) {
	try := addr
	if addr == "" {
		try = usual
	}
	rdb = redis.NewClient(&redis.Options{Addr: try, DialerRetries: 1, ContextTimeoutEnabled: true})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err = rdb.Ping(ctx).Err(); err == nil {
		fmt.Fprintln(stdout, "Redis at", try)
		return rdb, func() { rdb.Close() }, nil
	}
	rdb.Close()
	if addr != "" {
		return nil, nil, fmt.Errorf("no Redis at %s: %w", addr, err)
	}

	embedded, err := miniredis.Run()
	if err != nil {
		return nil, nil, fmt.Errorf("no Redis at %s, and miniredis did not start: %w", usual, err)
	}
	embedded.ClockTTL(true) // keys expire as time goes by
	fmt.Fprintln(stdout, "miniredis, embedded: no Redis answers at", usual)
	rdb = redis.NewClient(&redis.Options{Addr: embedded.Addr()})
	return rdb, func() { rdb.Close(); embedded.Close() }, nil
}
