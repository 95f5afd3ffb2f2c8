package ratelimit

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A master of a cluster is lost under load and its replica takes over. A client with the default options
// finds it at once, though by itself it looks for masters once a minute. Limits whose keys are with other
// masters are exact; those of the lost one exceed by what it did not hand on.
func TestClusterMasterLostUnderLoad(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*server){
		"killed": (*server).kill,
		"frozen": (*server).freeze, // and the client waits for it as long as its own timeouts say
	} {
		atMost := map[string]time.Duration{"killed": 5 * time.Second, "frozen": 30 * time.Second}[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 3, 1)
			victim, replica := c.masters[0], c.replicas[0]
			const units = 250
			prefix, rdb, keys := uniqueKey(t), c.Client(t), keysByMaster(t, c, 2)
			hit := newQuotas(t, rdb, prefix, units, keys[victim]...)
			spared := newQuotas(t, rdb, prefix, units, slices.Concat(keys[c.masters[1]], keys[c.masters[2]])...)
			l := startQuotaLoad(t, 16, 100*time.Millisecond, slices.Concat(hit, spared))
			l.await(t, 10, l.quotas)

			lost := time.Now()
			lose(victim)
			var before, known []int64
			if name == "killed" {
				before, known = admittedAndKnown(t, hit, replica)
			}
			replica.awaitInfo(t, "Replication", "role", "master")
			promoted := time.Now()
			eventually(t, 90*time.Second, func(context.Context) error {
				if _, _, resumed := l.outage(lost, promoted, hit); resumed.IsZero() {
					return errors.New("no decision")
				}
				return nil
			})
			l.await(t, 5, l.quotas)
			l.awaitCalm(t, 500)
			l.stop()
			l.drain(t)

			for what, quotas := range map[string][]*quota{"its slots": hit, "other slots": spared} {
				failed, last, resumed := l.outage(lost, promoted, quotas)
				t.Logf("%s, %s: promoted %v later; first decision %v after that, last failure %v after it; %d failures: %s",
					name, what, round(promoted.Sub(lost)), round(resumed.Sub(promoted)), round(last.Sub(promoted)), failed, l.failures(quotas))
				require.Less(t, resumed.Sub(promoted), atMost, what)
			}
			l.requireInTime(t)
			requireExact(t, units, spared)
			if name == "killed" {
				requireLossExplains(t, units, hit, before, known)
			}
		})
	}
}

// A cluster client is told to look for the masters anew when a node is not to be had, and not because of what a
// node says.
func TestLooksForMastersAnew(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		closedPort(t): true,
		startFake(t, func(string) string { return "-ERR something" }).Options().Addr: false,
	} {
		rdb := &countsReloads{ClusterClient: redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{Start: 0, End: slots - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
			},
		})}
		t.Cleanup(func() { _ = rdb.Close() })
		r, err := NewTokenBucket(rdb, PerSecond(5))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = r.Allow(ctx, "key")
		cancel()
		require.Error(t, err)
		if want {
			eventually(t, 5*time.Second, func(context.Context) error {
				if rdb.n.Load() == 0 {
					return errors.New("not told")
				}
				return nil
			})
			continue
		}
		require.ErrorContains(t, err, "something")
		require.Zero(t, rdb.n.Load())
	}
}

// A countsReloads counts how often it is told to look for the masters.
type countsReloads struct {
	*redis.ClusterClient
	n atomic.Int64
}

func (c *countsReloads) ReloadState(context.Context) { c.n.Add(1) }

// requireExact requires that each quota was used up, and not exceeded.
func requireExact(t *testing.T, units int64, quotas []*quota) {
	t.Helper()
	var unknown int64
	for _, q := range quotas {
		require.LessOrEqual(t, q.admitted.Load(), units, "%s: over the limit", q)
		require.GreaterOrEqual(t, q.admitted.Load()+q.unknown.Load(), units, "%s: units that nobody got", q)
		unknown += q.unknown.Load()
	}
	t.Logf("%d limits of %d: none exceeded, none short; %d calls may have been charged without an answer", len(quotas), units, unknown)
}

// requireLossExplains requires that what quotas were exceeded by is no more than what the old master admitted
// before it went and the new one did not know of.
func requireLossExplains(t *testing.T, units int64, quotas []*quota, before, known []int64) (lost, over int64) {
	t.Helper()
	for i, q := range quotas {
		admitted, missing := q.admitted.Load(), max(0, before[i]-known[i])
		require.LessOrEqual(t, admitted-before[i], units-known[i], "%s: more than the new master had", q)
		require.LessOrEqual(t, admitted, units+missing, "%s: more than the limit and what was lost", q)
		require.GreaterOrEqual(t, admitted+q.unknown.Load(), units, "%s: units that nobody got", q)
		lost += missing
		over += max(0, admitted-units)
	}
	t.Logf("%d limits of %d: %d units lost by replication, %d admitted beyond the limits", len(quotas), units, lost, over)
	return lost, over
}

// admittedAndKnown is, for each quota, what the old master has admitted and what its replica knows of that,
// once the replica has read all that was sent to it and before it is a master.
func admittedAndKnown(t *testing.T, quotas []*quota, replica *server) (admitted, known []int64) {
	t.Helper()
	replica.awaitInfo(t, "Replication", "master_link_status", "down")
	rdb := newClient(t, &redis.Options{
		Addr: replica.Addr(),
		OnConnect: func(ctx context.Context, cn *redis.Conn) error {
			_ = cn.ReadOnly(ctx) // a cluster wants it said, others do not know it
			return nil
		},
	})
	for _, q := range quotas {
		admitted = append(admitted, q.admitted.Load())
		known = append(known, q.used(t, rdb))
	}
	role, err := replica.info(t.Context(), "Replication", "role")
	require.NoError(t, err)
	require.Equal(t, "slave", role, "promoted before it could be asked")
	return admitted, known
}

// keysByMaster is n keys for each master, in slots that it serves.
func keysByMaster(t *testing.T, c *cluster, n int) map[*server][]string {
	t.Helper()
	rdb := c.Client(t)
	keys := map[*server][]string{}
	for i, left := 0, n*len(c.masters); left > 0; i++ {
		key := "key" + strconv.Itoa(i)
		node, err := rdb.MasterForKey(t.Context(), "{"+key+"}")
		require.NoError(t, err)
		at := slices.IndexFunc(c.masters, func(s *server) bool { return s.peerAddr() == node.Options().Addr })
		if m := c.masters[at]; len(keys[m]) < n {
			keys[m] = append(keys[m], key)
			left--
		}
	}
	return keys
}
