// Bench measures this library against its peers, all in one run, and writes
// docs/benchmarks.md and its pictures.
//
//	go run . [flags]
//
// It starts the servers it needs, on free ports.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const usage = `usage: bench [flags]

Measures this library against its peers. It needs redis-server or valkey-server
on the PATH, and 4 GB of memory for 1e7 keys.

  -rounds n        slices of each subject, of which the median counts (default 5)
  -slice duration  how long one is (default 300ms)
  -callers list    numbers of concurrent callers (default 1,4,16,64,256)
  -keys n          most keys of the growth curves, from 1e3 on; 0: no curves
                   (default 1e7)
  -only list       names of the subjects, all if not given
  -cluster         measure on a cluster of three nodes too (default true)
  -delay duration  measure with so much network delay too; 0: do not (default 1ms)
  -cancel          call with a context that can be cancelled, as a service's can
                   (default true)
  -out dir         where to write benchmarks.md and img/bench; it must exist
                   (default ../docs)
  -quick           a run of seconds, which shows that all works and no more:
                   other defaults of the flags above
`

// Options are the flags.
type options struct {
	plan
	callers  []int
	most     int // keys of the growth curves
	limit    int // most units of the growth curves
	subjects []subject
	cluster  bool
	delay    time.Duration
	out      string
	command  string // that makes the same run
}

func main() {
	if order := os.Getenv(relayEnv); order != "" {
		if err := relay(order, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench: relay:", err)
			os.Exit(1)
		}
		return
	}
	redis.SetLogger(&logging.VoidLogger{}) // it tells of each dial to a server that is just starting
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the program; it returns its exit status: 2 for bad input, 1 if it failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "bench: %v (-h shows the usage)\n", err)
		return 2
	}
	o.log = func(format string, args ...any) {
		fmt.Fprintf(stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	}
	r, err := measure(ctx, &o)
	if err == nil {
		fmt.Fprint(stdout, r.summary())
		err = r.write(o.out, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	quick := flags.Bool("quick", false, "")
	flags.IntVar(&o.rounds, "rounds", 5, "")
	flags.DurationVar(&o.slice, "slice", 300*time.Millisecond, "")
	callers := flags.String("callers", "1,4,16,64,256", "")
	keys := flags.Float64("keys", 1e7, "")
	only := flags.String("only", "", "")
	flags.BoolVar(&o.cluster, "cluster", true, "")
	flags.DurationVar(&o.delay, "delay", time.Millisecond, "")
	flags.BoolVar(&o.cancel, "cancel", true, "")
	flags.StringVar(&o.out, "out", "../docs", "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.keys, o.limit = 1000, 1_000_000
	if *quick {
		set := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
		for name, value := range map[string]string{"rounds": "2", "slice": "20ms", "callers": "1,16", "keys": "1e4"} {
			if !set[name] {
				_ = flags.Lookup(name).Value.Set(value) // they are good values
			}
		}
		o.keys, o.limit = 100, 1000
	}
	o.command = "go run ."
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "out" {
			o.command += " -" + f.Name + "=" + f.Value.String()
		}
	})
	o.most = int(*keys)
	var err error
	if o.callers, err = numbers(*callers); err != nil {
		return o, fmt.Errorf("-callers: %w", err)
	}
	if o.subjects, err = choose(words(*only)); err != nil {
		return o, err
	}
	info, err := os.Stat(o.out)
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.rounds < 1 || o.slice < time.Millisecond || o.delay < 0:
		return o, errors.New("-rounds must be at least 1, -slice at least 1ms, -delay at least 0")
	case *keys != 0 && (*keys < 1000 || *keys > 1e8):
		return o, errors.New("-keys must be 0, or 1e3 to 1e8")
	case err != nil:
		return o, err
	case !info.IsDir():
		return o, fmt.Errorf("%s is not a directory", o.out)
	}
	return o, nil
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func numbers(list string) ([]int, error) {
	var all []int
	for _, word := range words(list) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 10_000 || len(all) > 0 && n <= all[len(all)-1] {
			return nil, fmt.Errorf("%q must be rising numbers from 1 to 10000", list)
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return nil, errors.New("there is none")
	}
	return all, nil
}

// write puts the document and the pictures below a directory.
func (r *report) write(out string, stdout io.Writer) error {
	dir := filepath.Join(out, "img", "bench")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for all to read
		return err
	}
	pictures := r.pictures()
	for _, p := range pictures {
		if err := p.save(dir); err != nil {
			return err
		}
		fmt.Fprintln(stdout, filepath.Join(dir, p.file))
	}
	path := filepath.Join(out, "benchmarks.md")
	fmt.Fprintln(stdout, path)
	return os.WriteFile(path, []byte(r.document(pictures)), 0o644) //nolint:gosec // for all to read
}
