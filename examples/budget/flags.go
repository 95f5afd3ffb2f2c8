package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
)

// errUsage is wrapped by the error of bad flags.
var errUsage = errors.New("usage: budget [-redis-addr host:port]")

func parse(args []string) (redisAddr string, err error) {
	flags := flag.NewFlagSet("budget", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error
	flags.StringVar(&redisAddr, "redis-addr", "localhost:6379", "")
	err = flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil {
		_, _, err = net.SplitHostPort(redisAddr)
	}
	if err != nil {
		err = fmt.Errorf("budget: %w; %w", err, errUsage)
	}
	return redisAddr, err
}
