package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
)

// errUsage is wrapped by the error of bad flags.
var errUsage = errors.New("usage: chi [-addr host:port] [-redis-addr host:port]")

func parse(args []string) (addr, redisAddr string, err error) {
	flags := flag.NewFlagSet("chi", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error
	flags.StringVar(&addr, "addr", "localhost:8080", "")
	flags.StringVar(&redisAddr, "redis-addr", "localhost:6379", "")
	err = flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for _, a := range []string{addr, redisAddr} {
		if _, _, bad := net.SplitHostPort(a); err == nil {
			err = bad
		}
	}
	if err != nil {
		err = fmt.Errorf("chi: %w; %w", err, errUsage)
	}
	return addr, redisAddr, err
}
