package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
)

// errUsage is wrapped by the error of bad flags.
var errUsage = errors.New("usage: grpc [-addr host:port] [-redis-addr host:port] [-calls n]")

// run is the client if there are calls to make, else the server.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	addr, redisAddr, calls, err := parse(args)
	switch {
	case err != nil:
		return fmt.Errorf("grpc: %w; %w", err, errUsage)
	case calls > 0:
		return ask(ctx, addr, calls, stdout)
	}
	return serve(ctx, addr, redisAddr, stdout)
}

func parse(args []string) (addr, redisAddr string, calls int, err error) {
	flags := flag.NewFlagSet("grpc", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error
	flags.StringVar(&addr, "addr", "localhost:8080", "")
	flags.StringVar(&redisAddr, "redis-addr", "localhost:6379", "")
	flags.IntVar(&calls, "calls", 0, "")
	if err := flags.Parse(args); err != nil {
		return "", "", 0, err
	}
	if flags.NArg() > 0 {
		return "", "", 0, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if calls < 0 {
		return "", "", 0, fmt.Errorf("-calls is %d, it must be at least 0", calls)
	}
	for _, a := range []string{addr, redisAddr} {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return "", "", 0, err
		}
	}
	return addr, redisAddr, calls, nil
}
