package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const usualAddr = "localhost:6379"

const usage = `usage: quickstart [-redis-addr host:port]

Shows the five algorithms of the rate limiter deciding on the same bursts of
calls. It takes about 3 seconds and leaves nothing behind in Redis.

  -redis-addr host:port
        the Redis to use; if not given, the one at ` + usualAddr + `,
        or an embedded miniredis if none answers there
`

// parse is the address that args ask for, "" if none.
func parse(args []string) (string, error) {
	var addr string
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("redis-addr", "", func(s string) error {
		addr = s
		return checkAddr(s)
	})
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	if flags.NArg() > 0 {
		return "", fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return addr, nil
}

func checkAddr(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return errors.New("it must be host:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("its port must be 1 to 65535")
	}
	return nil
}

// A server is a Redis to show the limiters on.
type server struct {
	addr  string
	name  string // what it is and where
	close func()
}

// find is the server at addr; if that is "", the one at usual, or an embedded
// one.
func find(addr, usual string) (*server, error) {
	// A failure is told in one line, by us.
	redis.SetLogger(&logging.VoidLogger{})

	if addr != "" {
		version, err := ping(addr, 1500*time.Millisecond)
		if err != nil {
			return nil, fmt.Errorf("no Redis at %s: %w", addr, err)
		}
		return &server{addr, version + " at " + addr, func() {}}, nil
	}
	if version, err := ping(usual, 500*time.Millisecond); err == nil {
		return &server{usual, version + " at " + usual, func() {}}, nil
	}

	embedded, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("no Redis at %s, and miniredis did not start: %w", usual, err)
	}
	embedded.ClockTTL(true) // keys expire as time goes by
	name := "miniredis" + miniredisVersion() + ", embedded: no Redis answers at " + usual
	return &server{embedded.Addr(), name, embedded.Close}, nil
}

// ping asks the server at addr what it is, once and without patience.
func ping(addr string, timeout time.Duration) (version string, err error) {
	rdb := redis.NewClient(&redis.Options{
		Addr:                  addr,
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
	})
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	if err := rdb.Ping(ctx).Err(); err != nil {
		return "", err
	}
	return serverVersion(rdb.Info(ctx, "server").Val()), nil
}

// serverVersion reads a name and a version out of what INFO says. The servers
// that stand in for Redis tell also which Redis they are like.
func serverVersion(info string) string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[key] = value
	}
	switch {
	case fields["valkey_version"] != "":
		return "Valkey " + fields["valkey_version"]
	case fields["dragonfly_version"] != "":
		return "Dragonfly " + fields["dragonfly_version"]
	case fields["redis_version"] != "":
		return "Redis " + fields["redis_version"]
	}
	return "a Redis that does not tell its version"
}

func miniredisVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/alicebob/miniredis/v2" {
				return " " + module.Version
			}
		}
	}
	return ""
}
