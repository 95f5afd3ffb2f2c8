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
var errUsage = errors.New("usage: cluster [-redis-addrs host:port,host:port]")

func parse(args []string) (redisAddrs []string, err error) {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error
	list := flags.String("redis-addrs", "localhost:7000,localhost:7001,localhost:7002", "")
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
		err = fmt.Errorf("cluster: %w; %w", err, errUsage)
	}
	return redisAddrs, err
}
