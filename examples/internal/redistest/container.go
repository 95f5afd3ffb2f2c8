package redistest

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
)

const insidePort = "6379/tcp"

// silence keeps testcontainers from telling of every step.
var silence = sync.OnceFunc(func() { log.SetDefault(log.NewNoopLogger()) })

// startContainer takes about 1 s, and longer when it has to pull the image.
func startContainer(tb testing.TB) (string, error) { tb.Helper(); return runContainer(tb) }

func runContainer(tb testing.TB, options ...string) (addr string, err error) {
	tb.Helper()
	silence()
	image := os.Getenv(imageEnv)
	if image == "" {
		image = "redis:8-alpine"
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 3*time.Minute)
	defer cancel()
	c, err := testcontainers.Run(ctx, image,
		testcontainers.WithExposedPorts(insidePort),
		testcontainers.WithCmd(append([]string{"--save", "", "--protected-mode", "no"}, options...)...),
		testcontainers.WithWaitStrategy(wait.ForLog("Ready to accept connections")),
	)
	testcontainers.CleanupContainer(tb, c, testcontainers.StopTimeout(0))
	if err != nil {
		return "", err
	}
	if addr, err = c.PortEndpoint(ctx, insidePort, ""); err != nil {
		return "", err
	}
	return addr, poll(ctx, 10*time.Second, addr, func(ctx context.Context, rdb *redis.Client) error {
		return rdb.Ping(ctx).Err()
	})
}

// startClusterContainer is a cluster of one node, which tells clients the
// address at which they reach it.
func startClusterContainer(tb testing.TB) ([]string, error) {
	tb.Helper()
	addr, err := runContainer(tb, "--cluster-enabled", "yes")
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ips, err := new(net.Resolver).LookupIP(tb.Context(), "ip4", host)
	if err != nil {
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	for option, value := range map[string]string{"cluster-announce-ip": ips[0].String(), "cluster-announce-port": port} {
		if err := rdb.ConfigSet(tb.Context(), option, value).Err(); err != nil {
			return nil, err
		}
	}
	return joinSlots(tb, []string{addr})
}
