// Plots draws the pictures of docs/algorithms.md from runs of the library.
//
//	go run ./plots [-out dir] [-redis-addr host:port]
//
// What depends on time is run on a miniredis whose clock is set by hand: the
// library's own scripts decide, and the pictures come out the same each time.
// The memory of a key is what a real Redis says: the one at the address given,
// or else a redis-server that is started for it.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

const usage = `usage: plots [-out dir] [-redis-addr host:port]

Draws the pictures of docs/algorithms.md.

  -out dir
        where to put them (default ../docs/img); it must exist
  -redis-addr host:port
        the Redis that is asked for the memory of a key; if not given, a
        redis-server or valkey-server from the PATH is started for that
`

// A picture is a file and how it is made.
type picture struct {
	name string
	draw func() (*sheet, error)
}

// timed are the pictures that come out the same each time.
func timed() []picture {
	all := []picture{
		{"traffic.svg", drawTraffic},
		{"boundary.svg", drawBoundary},
		{"change.svg", drawChange},
	}
	for _, k := range kinds {
		all = append(all, picture{string(k.algorithm) + ".svg", func() (*sheet, error) { return drawOne(k) }})
	}
	return all
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns its exit status: 2 for bad input, 1 if a
// picture could not be made.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("plots", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	out := flags.String("out", "../docs/img", "")
	addr := flags.String("redis-addr", "", "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case err == nil:
		err = check(*out, *addr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "plots: %v (-h shows the usage)\n", err)
		return 2
	}

	status := 0
	memory := picture{"memory.svg", func() (*sheet, error) { return drawMemory(*addr) }}
	for _, p := range append(timed(), memory) {
		path := filepath.Join(*out, p.name)
		if err := save(p, path); err != nil {
			fmt.Fprintf(stderr, "plots: %s was not made: %v\n", path, err)
			status = 1
			continue
		}
		fmt.Fprintln(stdout, path)
	}
	return status
}

func check(dir, addr string) error {
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if host, port, err := net.SplitHostPort(addr); addr != "" && (err != nil || host == "" || port == "") {
		return fmt.Errorf("the address %q must be host:port", addr)
	}
	return nil
}

func save(p picture, path string) error {
	s, err := p.draw()
	if err != nil {
		return err
	}
	var svg bytes.Buffer
	if err := s.write(&svg); err != nil {
		return err
	}
	return os.WriteFile(path, svg.Bytes(), 0o644) //nolint:gosec // a picture, for all to read
}
