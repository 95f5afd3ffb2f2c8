package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
)

// errUsage is wrapped by the error of bad flags.
var errUsage = errors.New("usage: tiers [-redis-addrs host:port,...]")

func parse(args []string) (redisAddrs []string, err error) {
	flags := flag.NewFlagSet("tiers", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error
	list := flags.String("redis-addrs", "localhost:6379", "")
	err = flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for addr := range strings.SplitSeq(*list, ",") {
		if _, _, bad := net.SplitHostPort(addr); err == nil {
			err = bad
		}
		redisAddrs = append(redisAddrs, addr)
	}
	if err != nil {
		err = fmt.Errorf("tiers: %w; %w", err, errUsage)
	}
	return redisAddrs, err
}
