package ratelimit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A master that Sentinel watches is killed under load. Calls go on in time, decisions resume with the new
// master, and it admits what the limit has less what it knows of: in all, no more than the limit and the
// units that the old master admitted and did not hand on.
func TestSentinelMasterKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *sentinel, *quotaLoad) (afterwards func()){
		"as it falls":             func(*testing.T, *sentinel, *quotaLoad) func() { return func() {} },
		"all is replicated":       awaitReplication,
		"replication has stalled": stallReplication,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := startServer(t)
			replica := startReplica(t, master)
			s := startSentinel(t, master, replica)
			s.beSlower(t)
			const units = 600
			quotas := newQuotas(t, s.Client(t), uniqueKey(t), units, "key")
			l := startQuotaLoad(t, 16, 100*time.Millisecond, quotas)
			l.await(t, 50, quotas)

			afterwards := prepare(t, s, l)
			killed := time.Now()
			master.kill()
			afterwards()
			before, known := admittedAndKnown(t, quotas, replica)

			promoted := make(chan time.Time, 1)
			go func() {
				_ = poll(t.Context(), func(ctx context.Context) error {
					role, err := replica.info(ctx, "Replication", "role")
					if role != "master" {
						err = fmt.Errorf("its role is %q: %w", role, err)
					}
					return err
				})
				promoted <- time.Now()
			}()
			require.Same(t, replica, s.failover(t))
			announced := time.Now()
			l.await(t, 20, quotas)
			l.awaitCalm(t, 500)
			l.stop()
			l.drain(t)

			up := <-promoted
			failed, last, resumed := l.outage(killed, up, quotas)
			t.Logf("killed; promoted after %v, announced after %v; first decision %v after the promotion, last failure %v after it; %d failures: %s",
				round(up.Sub(killed)), round(announced.Sub(killed)), round(resumed.Sub(up)), round(last.Sub(up)), failed, l.failures(quotas))
			require.Positive(t, failed)
			require.Less(t, resumed.Sub(announced), 5*time.Second)
			l.requireInTime(t)

			lost, over := requireLossExplains(t, units, quotas, before, known)
			switch name {
			case "all is replicated":
				require.Zero(t, lost)
				require.Zero(t, over)
			case "replication has stalled":
				require.GreaterOrEqual(t, lost, int64(5*10))
				require.Positive(t, over, "the bound is not put to the test")
			}
		})
	}
}

// beSlower leaves time to ask the replica what it knows, before it is promoted.
func (s *sentinel) beSlower(t *testing.T) {
	t.Helper()
	rdb := redis.NewSentinelClient(&redis.Options{Addr: s.addr})
	defer rdb.Close()
	require.NoError(t, rdb.Set(t.Context(), sentinelMaster, "down-after-milliseconds", "2000").Err())
}

// awaitReplication lets nobody call until afterwards, and waits until the replica has all that was written.
func awaitReplication(t *testing.T, s *sentinel, l *quotaLoad) (afterwards func()) {
	t.Helper()
	l.close()
	conn := s.master.Client(t).Conn()
	defer conn.Close()
	// WAIT is for the writes of its own connection, and for all before them.
	require.NoError(t, conn.Set(t.Context(), "barrier", 1, 0).Err())
	require.EqualValues(t, 1, conn.Wait(t.Context(), 1, 5*time.Second).Val())
	return l.open
}

// stallReplication lets each quota be used some more while the replica hears nothing of it: it is frozen, and
// its connection closed, or it would find in it afterwards what was sent meanwhile.
func stallReplication(t *testing.T, s *sentinel, l *quotaLoad) (afterwards func()) {
	t.Helper()
	s.replicas[0].freeze()
	require.EqualValues(t, 1, s.master.Client(t).ClientKillByFilter(t.Context(), "TYPE", "replica").Val())
	l.await(t, 20, l.quotas)
	return s.replicas[0].thaw
}
