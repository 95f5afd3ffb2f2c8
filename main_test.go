package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/testcontainers/testcontainers-go/log"
)

const (
	addrEnv    = "RATELIMIT_REDIS_ADDR"  // host:port of a running Redis
	imageEnv   = "RATELIMIT_REDIS_IMAGE" // image of the containers
	requireEnv = "RATELIMIT_REQUIRE"     // addr, container or process: that way or none
	childEnv   = "RATELIMIT_TEST_CHILD"  // set in a child process: the name of what it runs
)

// The ways to a Redis, in the order in which they are tried.
const (
	byAddr      = "addr"
	byContainer = "container"
	byProcess   = "process"
)

// shared is the Redis that tests have in common, found before the first of them starts.
var shared struct {
	by     string
	addr   string
	remove func() error
}

// TestMain finds the Redis that all tests share: the one at RATELIMIT_REDIS_ADDR, else a container,
// else a redis-server or valkey-server from PATH. Without any it fails, for a skipped test proves nothing.
func TestMain(m *testing.M) { os.Exit(runMain(m)) }

func runMain(m *testing.M) int {
	if name := os.Getenv(childEnv); name != "" {
		return runChild(name)
	}
	log.SetDefault(log.NewNoopLogger())    // testcontainers tells of every step
	redis.SetLogger(&logging.VoidLogger{}) // and go-redis of every dial that fails, as many must
	about, err := findRedis()
	if err != nil {
		fmt.Fprintf(os.Stderr, "ratelimit: %v\n", err)
		return 1
	}
	defer func() {
		if err := shared.remove(); err != nil {
			fmt.Fprintf(os.Stderr, "ratelimit: removing the shared Redis: %v\n", err)
		}
	}()
	fmt.Fprintf(os.Stderr, "ratelimit: testing against %s\n", about)

	// Child processes and the workers of a fuzz test use the same server.
	os.Setenv(addrEnv, shared.addr)
	os.Setenv(requireEnv, byAddr)
	return m.Run()
}

// findRedis fills in shared and says in a few words what was found.
func findRedis() (about string, err error) {
	ways := []struct {
		name string
		find func() error
	}{{byAddr, useAddr}, {byContainer, useContainer}, {byProcess, useProcess}}

	only := os.Getenv(requireEnv)
	if only == "" && os.Getenv(addrEnv) != "" {
		only = byAddr // asked for by name: nothing else will do
	}
	var tried []string
	for _, way := range ways {
		if only != "" && only != way.name {
			continue
		}
		if err := way.find(); err != nil {
			tried = append(tried, fmt.Sprintf("%s: %v", way.name, err))
			continue
		}
		shared.by = way.name
		return describe()
	}
	if len(tried) == 0 {
		return "", fmt.Errorf("%s is %q, which is none of addr, container and process", requireEnv, only)
	}
	return "", fmt.Errorf("the tests need a Redis: start Docker, put redis-server or valkey-server on PATH, "+
		"or set %s=host:port (%s)", addrEnv, strings.Join(tried, "; "))
}

func useAddr() error {
	shared.addr = os.Getenv(addrEnv)
	if shared.addr == "" {
		return errors.New(addrEnv + " is not set")
	}
	shared.remove = func() error { return nil }
	return ping(context.Background(), shared.addr)
}

func useContainer() error {
	// Long enough to pull an image, unless there is a shorter way to a server.
	patience := 3 * time.Minute
	if _, err := serverBinary(); err == nil && os.Getenv(requireEnv) == "" {
		patience = 15 * time.Second
	}
	network, err := newNetwork()
	if err != nil {
		return err
	}
	containers = network
	if err := useServer(byContainer, patience); err != nil {
		return errors.Join(err, network.remove())
	}
	server := shared.remove
	shared.remove = func() error { return errors.Join(server(), network.remove()) }
	return nil
}

func useProcess() error { return useServer(byProcess, 15*time.Second) }

func useServer(by string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := launch(ctx, by, serverSpec{})
	if err != nil {
		return err
	}
	shared.addr, shared.remove = s.addr, s.remove
	return nil
}

// describe names the shared server: kind, version and address.
func describe() (string, error) {
	rdb := redis.NewClient(&redis.Options{Addr: shared.addr})
	defer rdb.Close()
	info, err := rdb.InfoMap(context.Background(), "server").Result()
	if err != nil {
		return "", errors.Join(err, shared.remove())
	}
	name, version := "redis", info["Server"]["redis_version"]
	for _, other := range []string{"valkey", "dragonfly"} {
		if v := info["Server"][other+"_version"]; v != "" {
			name, version = other, v
		}
	}
	return fmt.Sprintf("%s %s by %s at %s", name, version, shared.by, shared.addr), nil
}

// children are what this test binary can run as a process of its own. Add to them with
//
//	var _ = registerChild("name", func() int { … })
var children = map[string]func() int{}

func registerChild(name string, run func() int) bool {
	children[name] = run
	return true
}

func runChild(name string) int {
	run, ok := children[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "ratelimit: no child process is called %q\n", name)
		return 2
	}
	return run()
}

// childCommand is the command that runs the child of that name, until it ends or ctx does.
// The child finds the shared Redis by its RATELIMIT_REDIS_ADDR.
func childCommand(ctx context.Context, name string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	return cmd
}
