package ratelimit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// What befalls a server.
var serverFaults = []fault{
	{
		name:   "kill -9 and restart, twice",
		args:   []string{"--appendonly", "yes", "--appendfsync", "always"}, // so that no decision is forgotten
		strike: killAndRestart,
	},
	{name: "frozen (SIGSTOP) for 3 s", strike: func(t *testing.T, s *scene) {
		s.server.freeze()
		time.Sleep(3 * time.Second)
		s.server.thaw()
	}},
	{name: "SCRIPT FLUSH every 50 ms", hidden: true, strike: func(t *testing.T, s *scene) {
		every(50*time.Millisecond, func() { require.NoError(t, s.admin.ScriptFlush(t.Context()).Err()) })
	}},
	{name: "CLIENT KILL of all connections every 100 ms", strike: killClients},
	{name: "maxmemory reached (noeviction)", strike: func(t *testing.T, s *scene) {
		s.set(t, "maxmemory", "1")
		s.requireRefusal(t, redis.IsOOMError)
		time.Sleep(2 * time.Second)
		s.set(t, "maxmemory", "0")
	}},
	{
		name: "snapshots fail (MISCONF)",
		args: failingSnapshots,
		strike: func(t *testing.T, s *scene) {
			require.NoError(t, s.admin.BgSave(t.Context()).Err())
			s.requireRefusal(t, isMisconfigured)
			time.Sleep(2 * time.Second)
			s.set(t, "stop-writes-on-bgsave-error", "no")
		},
	},
	{
		name:   "disk full: no log can be written (MISCONF)",
		args:   []string{"--dir", "/dev/shm"}, // for a container; a process has a later --dir, its own
		strike: fillDisk,
	},
	{name: "fail-over, client still with the old master (READONLY)", proxied: true, strike: failOver},
}

// failingSnapshots makes a server that refuses to write after a BGSAVE: the directory of its log has the
// name of the snapshot, which can't take its place.
var failingSnapshots = []string{"--appendonly", "yes", "--appenddirname", "dump.rdb", "--save", "3600 1"}

func killAndRestart(t *testing.T, s *scene) {
	t.Helper()
	for range 2 {
		s.server.kill()
		time.Sleep(500 * time.Millisecond)
		s.server.restart()
		time.Sleep(500 * time.Millisecond)
	}
}

func killClients(t *testing.T, s *scene) {
	t.Helper()
	killed := int64(0)
	every(100*time.Millisecond, func() {
		n, err := s.admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Result()
		require.NoError(t, err)
		killed += n
	})
	require.Greater(t, killed, int64(20), "connections")
}

// fillDisk has the server write its log to a disk that is full. A process is given the device for that;
// a container has 64 MB of shared memory, which large values fill.
func fillDisk(t *testing.T, s *scene) {
	t.Helper()
	if p, ok := s.server.machine.(*serverProcess); ok {
		logs := filepath.Join(p.dir, "appendonlydir")
		require.NoError(t, os.Mkdir(logs, 0o700))
		require.NoError(t, os.Symlink("/dev/full", filepath.Join(logs, "temp-appendonly.aof.incr")))
	}
	s.set(t, "appendonly", "yes")
	if _, ok := s.server.machine.(*serverContainer); ok {
		large := strings.Repeat("x", 1<<20)
		for range 100 { // many, as what can't be written is tried again and again
			if err := s.admin.Set(t.Context(), "large", large, 0).Err(); isMisconfigured(err) {
				break
			}
		}
	}
	s.requireRefusal(t, isMisconfigured)
	time.Sleep(2 * time.Second)
	s.set(t, "appendonly", "no")
}

// failOver swaps the roles of the master and a replica, without any loss. The callers are led to the new
// master a while later.
func failOver(t *testing.T, s *scene) {
	t.Helper()
	replica := startReplica(t, s.server)
	require.NoError(t, s.admin.Do(t.Context(), "failover").Err())
	s.server.awaitInfo(t, "Replication", "role", "slave")
	s.requireRefusal(t, redis.IsReadOnlyError)
	time.Sleep(2 * time.Second)
	s.proxy.setTarget(replica.Addr())
	s.server, s.others = replica, 1
}

// every does it for 2 s.
func every(interval time.Duration, do func()) {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(interval) {
		do()
	}
}

func (s *scene) set(t *testing.T, name, value string) {
	t.Helper()
	require.NoError(t, s.admin.ConfigSet(t.Context(), name, value).Err())
}

// requireRefusal waits until the server refuses to write.
func (s *scene) requireRefusal(t *testing.T, is func(error) bool) {
	t.Helper()
	eventually(t, 5*time.Second, func(ctx context.Context) error {
		if err := s.admin.Set(ctx, "written", 1, 0).Err(); !is(err) {
			return fmt.Errorf("a write ends in: %w", err)
		}
		return nil
	})
}

func isMisconfigured(err error) bool { return redis.HasErrorPrefix(err, "MISCONF") }
