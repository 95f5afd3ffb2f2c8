package redistest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

// startProcesses is a cluster of three masters. It takes about 3 s: so long a
// node waits before it believes that its cluster is well.
func startProcesses(tb testing.TB) ([]string, error) {
	tb.Helper()
	addrs := make([]string, 3)
	for i := range addrs {
		var err error
		if addrs[i], err = startServer(tb, "--cluster-enabled", "yes"); err != nil {
			return nil, err
		}
	}
	return joinSlots(tb, addrs)
}

// joinSlots makes a cluster of nodes that do not know each other, and waits
// until all of them find it well.
func joinSlots(tb testing.TB, addrs []string) ([]string, error) {
	tb.Helper()
	first, firstPort, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, err
	}
	for i, addr := range addrs {
		err := poll(tb.Context(), 10*time.Second, addr, func(ctx context.Context, rdb *redis.Client) error {
			_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
				pipe.ClusterAddSlotsRange(ctx, i*slots/len(addrs), (i+1)*slots/len(addrs)-1)
				if i > 0 {
					pipe.ClusterMeet(ctx, first, firstPort)
				}
				return nil
			})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, addr := range addrs {
		err := poll(tb.Context(), 30*time.Second, addr, func(ctx context.Context, rdb *redis.Client) error {
			info, err := rdb.ClusterInfo(ctx).Result()
			for _, line := range []string{"cluster_state:ok", "cluster_size:" + strconv.Itoa(len(addrs))} {
				if !strings.Contains(info, line+"\r\n") {
					err = errors.Join(err, errors.New("no "+line))
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return addrs, nil
}
