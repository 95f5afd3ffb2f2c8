package ratelimit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Here a script's whole time is the one that it is passed, expiry included: each
// key has its deadline under a key beside it. So the fixed window can take part.

const passedTime = `
local tick = math.floor(ARGV[1] / 1000)
local call
function call(command, key, ...)
  if command == 'MGET' then
    local values = {}
    for i, key in ipairs({ key, ... }) do
      values[i] = call('GET', key)
    end
    return values
  end
  local deadline = key .. ':deadline'
  local ends = tonumber(redis.call('GET', deadline))
  if ends and ends < tick then
    redis.call('DEL', key, deadline)
    ends = nil
  end
  local function expire(ttl)
    redis.call('SET', deadline, tick + ttl, 'PX', 600000)
    redis.call('PEXPIRE', key, 600000)
  end
  if command == 'PTTL' then
    return redis.call('EXISTS', key) == 0 and -2 or ends and ends - tick or -1
  end
  if command == 'PEXPIRE' then
    return expire(...)
  end
  local reply = redis.call(command, key, ...)
  if command == 'DEL' then
    redis.call('DEL', deadline)
  elseif command == 'SET' then
    expire(select(3, ...))
  end
  return reply
end
`

// inPassedTime makes a script of which the reply also has what PTTL says of its
// keys.
func inPassedTime(tb testing.TB, s *script) *script {
	tb.Helper()
	text := passedTime + "local function script()\n" + strings.NewReplacer("redis.call(", "call(", "redis.pcall(", "call(").Replace(s.text) + `
end
local reply = script()
for i = 1, #KEYS do
  reply[#reply + 1] = call('PTTL', KEYS[i])
end
return reply`
	sha, err := sharedRedis(tb).ScriptLoad(tb.Context(), text).Result()
	require.NoError(tb, err)
	return &script{text: text, sha: sha}
}

// A timedKey is a key in a passed time, and its twin.
type timedKey struct {
	algorithm Algorithm
	name      string
	limit     Limit
	state     twin
	expires   int64 // ms
	last      answer
}

func newTimedKey(tb testing.TB, c *choices, a Algorithm) *timedKey {
	return &timedKey{algorithm: a, name: uniqueKey(tb), limit: c.limit(a), state: a.newTwin()}
}

// at is the key's state at a time, before it is asked.
func (k *timedKey) at(now int64) twin {
	if k.expires < now/1000 {
		k.state, k.expires = k.algorithm.newTwin(), 0
	}
	return k.state
}

// keep is what an answer leaves.
func (k *timedKey) keep(now int64, q request, a answer) {
	if k.expires != 0 {
		a = a.mend(now, k.expires, q)
	}
	switch k.last = a; {
	case a.ttl == gone:
		k.state, k.expires = k.algorithm.newTwin(), 0
	case a.ttl > 0:
		k.expires = now/1000 + a.ttl
	}
}

// ttl is what PTTL must say.
func (k *timedKey) ttl(now int64) int64 {
	if k.expires == 0 {
		return -2
	}
	return k.expires - now/1000
}

// timedSteps queues scripts and their checks.
type timedSteps struct {
	pipe   redis.Pipeliner
	checks []func() error
	steps  int
}

func (s *timedSteps) ask(tb testing.TB, script *script, keys []string, want []int64, what string, argv ...any) {
	cmd := s.pipe.EvalSha(tb.Context(), script.sha, keys, argv...)
	s.steps++
	s.checks = append(s.checks, func() error {
		got, err := cmd.Int64Slice()
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("the script says %v, the twins %v", got, want)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
	if len(s.checks) >= 300 {
		s.flush(tb)
	}
}

func (s *timedSteps) flush(tb testing.TB) {
	tb.Helper()
	_, err := s.pipe.Exec(tb.Context())
	for _, check := range s.checks {
		require.NoError(tb, check())
	}
	require.NoError(tb, err)
	s.checks = s.checks[:0]
}

func removeTimed(tb testing.TB, keys []*timedKey) {
	tb.Helper()
	for _, k := range keys {
		require.NoError(tb, sharedRedis(tb).Del(context.WithoutCancel(tb.Context()), k.name, k.name+":deadline").Err())
	}
}

// Several limits at once decide as their twins do: mixes of 2 to 8 limits of all
// algorithms, which change in the middle of use.
func TestAllEqualsTwins(t *testing.T) {
	t.Parallel()
	for total := 0; total < modelSteps; {
		total += runAllModel(t, seeded(t), 2000)
	}
}

func runAllModel(tb testing.TB, c *choices, steps int) (requests int) {
	tb.Helper()
	var keys []*timedKey
	for i := range 12 {
		keys = append(keys, newTimedKey(tb, c, allAlgorithms[i%len(allAlgorithms)]))
	}
	defer removeTimed(tb, keys)
	scripts := map[*script]*script{}
	s := &timedSteps{pipe: sharedRedis(tb).Pipeline()}
	now := 1_800_000_000_000_000 + c.below(1e12)
	for requests < steps {
		m := take
		if c.below(6) == 0 {
			m = peek
		}
		for i := range keys { // some keys, in any order
			j := i + int(c.below(int64(len(keys)-i)))
			keys[i], keys[j] = keys[j], keys[i]
		}
		some := keys[:2+c.below(7)]
		now = max(1_700_000_000_000_000, min(now+c.wait(some[0].last, some[0].limit.Period.Microseconds()), 5_000_000_000_000_000))
		var g group
		parts := make([]part, len(some))
		for i, k := range some {
			if c.below(8) == 0 {
				k.limit = c.vary(k.algorithm, k.limit)
			}
			n := 1 + int(c.below(3))
			if c.below(8) == 0 {
				n = c.units(int64(k.limit.capacity(k.algorithm)))
			}
			parts[i] = part{twin: k.at(now), now: now, q: k.algorithm.request(k.limit, n, m)}
			g.add(i, k.name, k.algorithm, parts[i].q)
		}
		decideAll(parts, m)
		var want, ttls []int64
		for i, k := range some {
			a := parts[i].answer
			k.keep(now, parts[i].q, a)
			want = append(want, a.granted, a.remaining, a.retry, a.reset)
			ttls = append(ttls, k.ttl(now))
		}
		script, argv := g.script(m)
		if scripts[script] == nil {
			scripts[script] = inPassedTime(tb, script)
		}
		s.ask(tb, scripts[script], g.names, append(want, ttls...), fmt.Sprintf("%s at %d", whatIsAsked(some, g.requests), now), append([]any{now}, argv...)...)
		requests += len(some)
	}
	s.flush(tb)
	return requests
}

func whatIsAsked(keys []*timedKey, requests []request) string {
	var text []string
	for i, k := range keys {
		text = append(text, fmt.Sprintf("%s %v %+v", k.algorithm, k.limit, requests[i]))
	}
	return strings.Join(text, "; ")
}

// Reservations do to the state what their twins do, whatever happens meanwhile.
func TestReservationsEqualTwins(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			for total := 0; total < modelSteps/4; {
				total += runReservationModel(t, a, seeded(t), 2000)
			}
		})
	}
}

// An openReservation is one that is not settled.
type openReservation struct {
	k       *timedKey
	id      string
	n, mark int64
	until   int64 // ms
}

func runReservationModel(tb testing.TB, a Algorithm, c *choices, steps int) int {
	tb.Helper()
	keys := []*timedKey{newTimedKey(tb, c, a), newTimedKey(tb, c, a)}
	defer removeTimed(tb, keys)
	decides, reserves := inPassedTime(tb, a.program().decide()), inPassedTime(tb, a.program().reserve())
	s := &timedSteps{pipe: sharedRedis(tb).Pipeline()}
	now := 1_800_000_000_000_000 + c.below(1e12)
	var open []openReservation
	life := reservationLife.Milliseconds()
	for s.steps < steps {
		k := keys[c.below(2)]
		if c.below(10) == 0 {
			k.limit = c.vary(a, k.limit)
		}
		wait := c.wait(k.last, k.limit.Period.Microseconds())
		if c.below(2) == 0 {
			wait = c.of(0, 1, 1000, 2000, 3000)
		}
		now = max(1_700_000_000_000_000, min(now+wait, 5_000_000_000_000_000))
		units := c.units(int64(k.limit.capacity(a)))
		what := fmt.Sprintf("%s %v, %d units at %d", a, k.limit, units, now)
		switch c.below(3) {
		case 0:
			q := a.request(k.limit, units, c.mode())
			answer := decide(k.at(now), now, q)
			k.keep(now, q, answer)
			s.ask(tb, decides, []string{k.name}, []int64{answer.granted, answer.remaining, answer.retry, answer.reset, k.ttl(now)},
				what, append([]any{now}, q.argv()...)...)
		case 1:
			q, id, name := a.request(k.limit, units, reserving), strconv.Itoa(s.steps), bucketName()
			answer := decide(k.at(now), now, q)
			k.keep(now, q, answer)
			ttl := int64(-2)
			if answer.granted > 0 {
				ttl = life
				open = append(open, openReservation{k, id, answer.granted, k.state.mark(now, answer, name), now/1000 + life})
			}
			s.ask(tb, reserves, []string{k.name, k.name + ":r:" + id},
				[]int64{answer.granted, answer.remaining, answer.retry, answer.reset, k.ttl(now), ttl},
				"reserve "+what, append(append([]any{now}, q.argv()...), string(a), name, life)...)
		default:
			if len(open) == 0 {
				continue
			}
			i := c.below(int64(len(open)))
			r := open[i]
			if c.below(4) != 0 { // else it is settled twice
				open = append(open[:i], open[i+1:]...)
			} else {
				open[i].until = 0
			}
			used := int(c.of(0, r.n, r.n/2, r.n+1, 2*r.n, int64(units)))
			q := a.request(r.k.limit, used, settling)
			var answer answer
			if r.until < now/1000 {
				answer = decide(r.k.at(now), now, a.request(r.k.limit, 1, peek))
				answer.granted = -1
				v := r.k.state.look(now, q)
				p := r.k.state.put(now, q, v, 0)
				r.k.keep(now, q, p)
			} else {
				answer = settle(r.k.at(now), now, q, r.n, r.mark)
				r.k.keep(now, q, answer)
			}
			s.ask(tb, reserves, []string{r.k.name, r.k.name + ":r:" + r.id},
				[]int64{answer.granted, answer.remaining, answer.retry, answer.reset, r.k.ttl(now), -2},
				"settle "+what+fmt.Sprintf(" %+v used %d", r, used), append(append([]any{now}, q.argv()...), string(a), 0, 0)...)
		}
	}
	s.flush(tb)
	return s.steps
}
