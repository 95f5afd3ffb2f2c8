package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
)

// errUsage is wrapped by the error of bad flags.
var errUsage = errors.New("usage: worker [-redis-addr host:port] [-api url] [-workers n] [-jobs n]")

type options struct {
	redisAddr string
	api       string // "": one of the program's own
	workers   int
	jobs      int
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error
	flags.StringVar(&o.redisAddr, "redis-addr", "localhost:6379", "")
	flags.StringVar(&o.api, "api", "", "")
	flags.IntVar(&o.workers, "workers", 5, "")
	flags.IntVar(&o.jobs, "jobs", 60, "")
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil && (o.workers < 1 || o.jobs < 1) {
		err = fmt.Errorf("%d workers and %d jobs: there must be at least one of each", o.workers, o.jobs)
	}
	if err == nil {
		_, _, err = net.SplitHostPort(o.redisAddr)
	}
	if err == nil && o.api != "" {
		_, err = url.ParseRequestURI(o.api)
	}
	if err != nil {
		err = fmt.Errorf("worker: %w; %w", err, errUsage)
	}
	return o, err
}
