package ratelimit

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A slot moves from one master to another under load, step by step, to one that has lost its scripts on the
// way. Clients are sent on by ASK and MOVED; no call fails, no limit is exceeded and no unit is lost, in this
// slot or any other.
func TestClusterSlotMigratedUnderLoad(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 0)
	rdb := c.Client(t)
	pipeliner, err := c.Client(t).AutoPipeline()
	require.NoError(t, err)
	const units = 100
	keys := keysByMaster(t, c, 1)
	from, to := c.masters[0], c.masters[1]
	moving := keys[from][0]
	var moved, late, others []*quota
	for _, client := range []redis.UniversalClient{rdb, pipeliner} {
		for range 2 {
			moved = append(moved, newQuotas(t, client, uniqueKey(t), units, moving)...)
		}
		late = append(late, newQuotas(t, client, uniqueKey(t), units, moving)...) // first used on the way
		others = append(others, newQuotas(t, client, uniqueKey(t), units, keys[to][0], keys[c.masters[2]][0])...)
	}
	l := startQuotaLoad(t, 16, time.Second, slices.Concat(moved, others))
	step := func() { l.await(t, 3, l.quotas) }
	step()
	move := newMigration(t, moving, from, to)

	move.say(move.to, "IMPORTING", move.fromID)
	move.say(move.from, "MIGRATING", move.toID)
	step()
	news := startQuotaLoad(t, 4, time.Second, late) // to keys that are nowhere yet
	news.await(t, 3, late)
	names := move.keys()
	require.Len(t, names, len(moved))
	for i, name := range names {
		if i == len(names)/2 {
			require.NoError(t, move.to.ScriptFlush(t.Context()).Err())
			step()
		}
		move.key(name)
	}
	step()
	require.NoError(t, move.to.ScriptFlush(t.Context()).Err())
	step()
	for _, node := range []*redis.Client{move.to, move.from, c.masters[2].Client(t)} {
		move.say(node, "NODE", move.toID)
		step()
	}
	l.stop()
	news.stop()
	asked, told := errorCount(t, c, "ASK"), errorCount(t, c, "MOVED")
	l.drain(t)
	news.drain(t)

	t.Logf("slot migrated under %d calls: %d ASK, %d MOVED; failures: %s",
		len(l.since(time.Time{}))+len(news.since(time.Time{})), asked, told, l.failures(l.quotas))
	require.Positive(t, asked)
	require.Positive(t, told)
	for _, l := range []*quotaLoad{l, news} {
		l.requireInTime(t)
		requireExact(t, units, l.quotas)
		for _, c := range l.since(time.Time{}) {
			require.NoError(t, c.err)
		}
	}
	require.EqualValues(t, len(moved)+len(late), move.to.ClusterCountKeysInSlot(t.Context(), move.slot).Val())
}

// In a slot that is being moved away, a key that a script has emptied can't be made again. So a log is not
// emptied on the way: neither when all its units have gone, nor when the clock was set back behind all of them.
func TestLogIsNeverEmptiedOnTheWay(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2, 0)
	from, to := c.masters[0], c.masters[1]
	key := keysByMaster(t, c, 1)[from][0]
	now := serverTime(t, from.Client(t))
	limiter := func(at time.Time) *Redis {
		r, err := NewSlidingWindowLog(c.Client(t), PerHour(5), WithPrefix("at"+strconv.Itoa(at.Hour())))
		require.NoError(t, err)
		s := *r.script
		s.now = strconv.FormatInt(at.UnixMicro(), 10)
		r.script = &s
		_, err = r.AllowN(t.Context(), key, 3)
		require.NoError(t, err)
		return r
	}
	gone, back := limiter(now.Add(-2*time.Hour)), limiter(now.Add(2*time.Hour))
	move := newMigration(t, key, from, to)
	move.say(move.to, "IMPORTING", move.fromID)
	move.say(move.from, "MIGRATING", move.toID)
	for r, remaining := range map[*Redis]int{gone: 4, back: 1} {
		r.script = SlidingWindowLog.program().decide() // by the server's clock
		result, err := r.Allow(t.Context(), key)
		require.NoError(t, err)
		require.True(t, result.Allowed)
		require.Equal(t, remaining, result.Remaining)
		require.EqualValues(t, 5-remaining, move.from.LLen(t.Context(), r.redisKey(key)).Val())
	}
}

// A migration moves the slot of a key.
type migration struct {
	t            *testing.T
	slot         int
	target       *server
	from, to     *redis.Client
	fromID, toID string
}

func newMigration(t *testing.T, key string, from, to *server) *migration {
	t.Helper()
	m := &migration{t: t, target: to, from: from.Client(t), to: to.Client(t)}
	slot, err := m.from.ClusterKeySlot(t.Context(), "{"+key+"}").Result()
	require.NoError(t, err)
	m.slot = int(slot)
	m.fromID, m.toID = m.from.ClusterMyID(t.Context()).Val(), m.to.ClusterMyID(t.Context()).Val()
	return m
}

func (m *migration) say(node *redis.Client, state, id string) {
	m.t.Helper()
	require.NoError(m.t, node.Do(m.t.Context(), "CLUSTER", "SETSLOT", m.slot, state, id).Err())
}

// keys is what the slot has on the old master.
func (m *migration) keys() []string {
	m.t.Helper()
	keys, err := m.from.ClusterGetKeysInSlot(m.t.Context(), m.slot, 1000).Result()
	require.NoError(m.t, err)
	return keys
}

func (m *migration) key(name string) {
	m.t.Helper()
	host, port, err := net.SplitHostPort(m.target.peerAddr())
	require.NoError(m.t, err)
	require.NoError(m.t, m.from.Migrate(m.t.Context(), host, port, name, 0, 5*time.Second).Err())
}

// errorCount is how many replies of all nodes began with that word.
func errorCount(t *testing.T, c *cluster, word string) (n int) {
	t.Helper()
	count := regexp.MustCompile(`errorstat_` + word + `:count=(\d+)`)
	for _, node := range c.masters {
		info, err := node.Client(t).Info(t.Context(), "errorstats").Result()
		require.NoError(t, err)
		if found := count.FindStringSubmatch(info); found != nil {
			more, err := strconv.Atoi(found[1])
			require.NoError(t, err)
			n += more
		}
	}
	return n
}
