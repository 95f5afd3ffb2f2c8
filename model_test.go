package ratelimit

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

var allAlgorithms = []Algorithm{TokenBucket, FixedWindow, SlidingWindowLog, SlidingWindowCounter, LeakyBucket}

// choices are where a sequence of steps comes from: chance, or a fuzzer's bytes.
type choices struct {
	rng  *rand.Rand
	data []byte
}

// seeded is chance that can be had again from what a failed test logs.
func seeded(tb testing.TB) *choices {
	tb.Helper()
	seed := rand.Uint64()
	tb.Logf("seed %d", seed)
	return &choices{rng: rand.New(rand.NewPCG(seed, 0))}
}

// below is a number from 0 to n-1.
func (c *choices) below(n int64) int64 {
	if c.rng != nil {
		return c.rng.Int64N(n)
	}
	var b [8]byte
	size := 1
	if n > 256 {
		size = 8
	}
	c.data = c.data[copy(b[:size], c.data):]
	return int64(binary.LittleEndian.Uint64(b[:]) % uint64(n))
}

func (c *choices) of(n ...int64) int64 { return n[c.below(int64(len(n)))] }

// upTo is a number from 1 to n of any order of magnitude.
func (c *choices) upTo(n int64) int64 {
	most := int64(1)
	for most < n && c.below(4) != 0 {
		most *= 4
	}
	return 1 + c.below(min(most, n))
}

// limit is a random valid limit for a.
func (c *choices) limit(a Algorithm) Limit {
	rates := int64(maxUnits)
	if a == SlidingWindowLog {
		rates = 300
	}
	l := Limit{
		Rate:   int(c.upTo(rates)),
		Period: time.Duration(c.upTo(maxPeriod.Microseconds())) * time.Microsecond,
	}
	if c.below(2) == 0 {
		l.Period = time.Duration(c.of(1, 7, 1000, 1e6, 60e6, 3600e6, 86400e6, 30*86400e6, 366*86400e6)) * time.Microsecond
	}
	if c.below(2) == 0 {
		l.Burst = int(c.of(1, 2, c.upTo(100), int64(l.Rate), c.upTo(maxUnits)))
	}
	for l.check(a) != nil {
		l.Burst /= 2
	}
	return l
}

// vary changes one part of l, or all.
func (c *choices) vary(a Algorithm, l Limit) Limit {
	other := c.limit(a)
	switch c.below(6) {
	case 0:
		l.Rate = other.Rate
	case 1:
		l.Period = other.Period
	case 2:
		l.Burst = other.Burst
	case 3:
		l.Rate = max(1, l.Rate/2)
	case 4:
		l.Period *= 2
	default:
		l = other
	}
	if l.check(a) != nil {
		return other
	}
	return l
}

func (c *choices) mode() mode {
	return []mode{take, take, take, take, take, take, peek, peek, upTo, charge}[c.below(10)]
}

func (c *choices) units(capacity int64) int {
	return int(c.of(1, 1, 1, 2, 3, capacity, capacity+1, 1+c.below(capacity), 1+c.below(capacity), 1<<62))
}

// wait is how many µs pass until the next step, often to a µs before or after
// something that the last answer foretold, and seldom less than none.
func (c *choices) wait(last answer, period int64) int64 {
	const longest = 400 * 86400e6
	d := c.of(0, 0, 0, 1, 999, 1000,
		last.retry, last.retry-1, last.retry-1000, last.reset, last.reset-1, last.reset+1000,
		period, period-1, 2*period, c.upTo(period), c.upTo(2*period), c.upTo(longest))
	if c.below(40) == 0 {
		return -c.of(1, 1000, c.upTo(period), c.upTo(longest))
	}
	return max(d, 0)
}

// A modelKey is one key as the model has it.
type modelKey struct {
	name    string
	state   twin
	expires int64 // ms
	latest  int64 // µs, when it was last called
	limit   Limit // with which it was last called
	last    answer
}

// A model runs an algorithm's script on Redis and its twin side by side.
type model struct {
	algorithm Algorithm
	sha       string
	frozen    bool // the server's clock stands while a script runs
	rdb       *redis.Client
	pipe      redis.Pipeliner
	checks    []func() error
	keys      []*modelKey
	now       int64
	limit     Limit
	steps     int
}

// timed makes a script that starts with a TTL of ARGV[7] and adds the TTL it
// leaves to its reply. All TTLs are longer in truth: the time that passes in
// these tests is not the server's.
func timed(text string) string {
	const more = "1000000"
	text = strings.ReplaceAll(text, "call('PEXPIRE', KEYS[i], ", "call('PEXPIRE', KEYS[i], "+more+" + ")
	text = strings.ReplaceAll(text, "'PX', ", "'PX', "+more+" + ")
	text = strings.ReplaceAll(text, "redis.call('PTTL', KEYS[i])", "(redis.call('PTTL', KEYS[i]) - "+more+")")
	return "local function script()\n" + text + `
end
redis.call('PEXPIRE', KEYS[1], ` + more + ` + ARGV[7])
local reply = script()
reply[5] = redis.call('PTTL', KEYS[1])
if reply[5] >= 0 then reply[5] = reply[5] - ` + more + ` end
return reply`
}

func newModel(tb testing.TB, a Algorithm, c *choices) *model {
	tb.Helper()
	m := &model{
		algorithm: a,
		frozen:    freezesTime(),
		rdb:       sharedRedis(tb),
		now:       1_800_000_000_000_000 + c.below(1e12),
		limit:     c.limit(a),
	}
	m.pipe = m.rdb.Pipeline()
	sha, err := m.rdb.ScriptLoad(tb.Context(), timed(a.program().decide().text)).Result()
	require.NoError(tb, err)
	m.sha = sha
	for range 3 {
		m.keys = append(m.keys, &modelKey{name: uniqueKey(tb), state: a.newTwin()})
	}
	return m
}

// step takes one random step: it asks the twin, and queues for Redis the same
// question and the checks of its answer.
func (m *model) step(tb testing.TB, c *choices) {
	k := m.keys[c.below(int64(len(m.keys)))]
	if c.below(8) == 0 {
		m.limit = c.vary(m.algorithm, m.limit)
	}
	m.now += m.wait(c, k)
	if c.below(50) == 0 {
		k.state, k.expires = m.algorithm.newTwin(), 0
		m.pipe.Del(tb.Context(), k.name)
	}
	q := m.algorithm.request(m.limit, c.units(int64(m.limit.capacity(m.algorithm))), c.mode())
	if q.mode == charge && c.below(2) == 0 {
		q.n = -q.n
	}
	a := m.ask(tb, k, m.now, q)
	if q.mode != peek {
		k.latest, k.limit = m.now, m.limit
	}
	// What another limit or a clock set back left is put right by calls, not by a peek.
	if m.now >= k.latest && m.limit == k.limit {
		m.foretold(tb, k, q, a)
	}
}

func (m *model) wait(c *choices, k *modelKey) int64 {
	// With a debt's time to full, up to 200 years, what is foretold stays below 2^53.
	const earliest, latest = 1_700_000_000_000_000, 2_600_000_000_000_000
	d := c.wait(k.last, m.limit.Period.Microseconds())
	if now := m.now + d; now < earliest || now > latest {
		return 0
	}
	return d
}

// foretold asks at the time that a foretold for its end, and a µs before.
func (m *model) foretold(tb testing.TB, k *modelKey, q request, a answer) {
	if q.mode == upTo || q.mode == charge {
		q.n = 1 // what their RetryAfter is for
	}
	q.mode = peek
	if a.retry > 0 {
		before, after := m.ask(tb, k, m.now+a.retry-1, q), m.ask(tb, k, m.now+a.retry, q)
		require.NotZero(tb, before.retry, "%v: allowed a µs before RetryAfter", m.limit)
		require.Zero(tb, after.retry, "%v: refused after RetryAfter", m.limit)
		require.LessOrEqual(tb, a.retry, a.reset, "%v: RetryAfter beyond ResetAfter", m.limit)
	}
	if a.reset > 0 {
		before, after := m.ask(tb, k, m.now+a.reset-1, q), m.ask(tb, k, m.now+a.reset, q)
		require.Positive(tb, before.reset, "%v: as never used a µs before ResetAfter", m.limit)
		require.Zero(tb, after.reset, "%v: used after ResetAfter", m.limit)
		require.Equal(tb, q.capacity, after.remaining)
	}
	if a.ttl > 0 {
		require.Equal(tb, ttl(m.now, a.reset), a.ttl, "%v: the key does not live as long as it counts", m.limit)
	}
}

// ask asks the twin at once and Redis at the next flush.
func (m *model) ask(tb testing.TB, k *modelKey, now int64, q request) answer {
	foretelling := now != m.now
	if !foretelling && k.expires < now/1000 {
		k.state, k.expires = m.algorithm.newTwin(), 0
		m.pipe.Del(tb.Context(), k.name)
	}
	left := max(k.expires-now/1000, 0) // a peek writes nothing, so the key may go before what it foretells
	want := decide(k.state, now, q).mend(now, k.expires, q)
	switch {
	case want.ttl > 0:
		k.expires = now/1000 + want.ttl
	case want.ttl == gone:
		k.state, k.expires = m.algorithm.newTwin(), 0
	}
	if !foretelling {
		k.last = want
	}
	m.steps++
	cmd := m.pipe.EvalSha(tb.Context(), m.sha, []string{k.name}, append(append([]any{now}, q.argv()...), left)...)
	limit := m.limit
	m.checks = append(m.checks, func() error {
		got, err := cmd.Int64Slice()
		if err != nil {
			return fmt.Errorf("%v, %+v: %w", limit, q, err)
		}
		if fmt.Sprint(got[:4]) != fmt.Sprint([]int64{want.granted, want.remaining, want.retry, want.reset}) || !m.sameTTL(got[4], want.ttl, left) {
			return fmt.Errorf("%v, %+v at %d: the script says %v, the twin %+v", limit, q, now, got, want)
		}
		return nil
	})
	return want
}

// sameTTL compares what PTTL said with the twin's ttl, or where that left it as
// it was, with what it was or a key that is not there. Before Redis 7.2 time
// goes on while a script runs.
func (m *model) sameTTL(got, want, left int64) bool {
	switch want {
	case gone:
		return got == -2
	case 0:
		return got == left || got == -2 || !m.frozen && got > left-1000
	}
	return got == want || !m.frozen && got < want && got > want-1000
}

// flush sends what is queued, and checks.
func (m *model) flush(tb testing.TB) {
	tb.Helper()
	_, err := m.pipe.Exec(tb.Context())
	require.NoError(tb, err)
	for _, check := range m.checks {
		require.NoError(tb, check())
	}
	m.checks = m.checks[:0]
}

func (m *model) close(tb testing.TB) {
	for _, k := range m.keys {
		require.NoError(tb, m.rdb.Del(tb.Context(), k.name).Err())
	}
}

// freezesTime tells whether the shared server's clock stands while a script runs.
var freezesTime = sync.OnceValue(func() bool {
	stands, err := sharedClient().Eval(context.Background(), `
		local a = redis.call('TIME')
		for i = 1, 20000 do redis.call('TIME') end
		local b = redis.call('TIME')
		return a[1] == b[1] and a[2] == b[2] and 1 or 0`, nil).Int()
	if err != nil {
		panic(err)
	}
	return stands == 1
})

// The scripts on Redis equal the twins, answer for answer and TTL for TTL.
func TestScriptsEqualTwins(t *testing.T) {
	t.Parallel()
	for _, a := range []Algorithm{TokenBucket, SlidingWindowLog, SlidingWindowCounter, LeakyBucket} {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			for total := 0; total < modelSteps; {
				total += runModel(t, a, seeded(t), 2000)
			}
		})
	}
}

const modelSteps = 200_000

func runModel(tb testing.TB, a Algorithm, c *choices, steps int) int {
	m := newModel(tb, a, c)
	defer m.close(tb)
	for range steps {
		m.step(tb, c)
		if len(m.checks) > 500 {
			m.flush(tb)
		}
	}
	m.flush(tb)
	return m.steps
}
