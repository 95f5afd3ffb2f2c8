package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// The fixed window has the server's expiry for a clock, which can't be passed.
// Here time passes by moving the key's deadline, and the server is asked for
// the time before and after each step: what it answers must be the twin's
// answer at one of the milliseconds between, nearly always the same one.

// deadlineLua is PEXPIRETIME, before Redis 7.0 by TIME and PTTL.
const deadlineLua = `
local function deadline(key)
  local known = redis.pcall('PEXPIRETIME', key)
  if type(known) == 'number' then
    return known
  end
  while true do
    local before, left, after = redis.call('TIME'), redis.call('PTTL', key), redis.call('TIME')
    local ms = math.floor((before[1] * 1000000 + before[2]) / 1000)
    if left < 0 then
      return left
    elseif ms == math.floor((after[1] * 1000000 + after[2]) / 1000) then
      return ms + left
    end
  end
end
`

// readDeadline is the ms at which KEYS[1] ends: -1 if never, -2 if it is not there.
var readDeadline = redis.NewScript(deadlineLua + "return deadline(KEYS[1])")

// moveDeadline moves the deadline of KEYS[1] ARGV[1] ms nearer, or takes it away.
var moveDeadline = redis.NewScript(deadlineLua + `
if ARGV[1] == 'persist' then
  redis.call('PERSIST', KEYS[1])
elseif deadline(KEYS[1]) >= 0 then
  redis.call('PEXPIREAT', KEYS[1], deadline(KEYS[1]) - ARGV[1])
end`)

const persist = math.MinInt64

type fixedStep struct {
	limit         Limit
	q             request
	move          int64 // ms, or persist
	before, after *redis.TimeCmd
	reply         *redis.Cmd
	deadline      *redis.Cmd
}

func runFixedModel(tb testing.TB, c *choices, steps int) {
	tb.Helper()
	ctx, rdb := tb.Context(), sharedRedis(tb)
	s := FixedWindow.program().decide()
	require.NoError(tb, rdb.ScriptLoad(ctx, s.text).Err())
	require.NoError(tb, moveDeadline.Load(ctx, rdb).Err())
	require.NoError(tb, readDeadline.Load(ctx, rdb).Err())
	key := uniqueKey(tb)
	twin, frozen := &fixedWindowTwin{}, freezesTime()
	limit := c.limit(FixedWindow)
	var last answer
	for range (steps + 99) / 100 {
		var queued []fixedStep
		pipe := rdb.Pipeline()
		for range 100 {
			if c.below(8) == 0 {
				limit = c.vary(FixedWindow, limit)
			}
			step := fixedStep{
				limit: limit,
				q:     FixedWindow.request(limit, c.units(int64(limit.Rate)), c.mode()),
				move:  c.wait(last, limit.Period.Microseconds()) / 1000,
			}
			if step.q.mode == charge && c.below(2) == 0 {
				step.q.n = -step.q.n
			}
			var move any = step.move
			if c.below(50) == 0 {
				step.move, move = persist, "persist"
			}
			step.before = pipe.Time(ctx)
			moveDeadline.EvalSha(ctx, pipe, []string{key}, move)
			step.reply = pipe.EvalSha(ctx, s.sha, []string{key}, append([]any{s.now}, step.q.argv()...)...)
			step.deadline = readDeadline.EvalSha(ctx, pipe, []string{key})
			step.after = pipe.Time(ctx)
			queued = append(queued, step)
		}
		_, err := pipe.Exec(ctx)
		require.True(tb, err == nil || errors.Is(err, redis.Nil), "%v", err)
		for _, step := range queued {
			last = step.check(tb, twin, frozen)
		}
	}
	require.NoError(tb, rdb.Del(ctx, key).Err())
}

// check finds the ms at which the twin answers as the script did.
func (s *fixedStep) check(tb testing.TB, twin *fixedWindowTwin, frozen bool) answer {
	tb.Helper()
	got, err := s.reply.Int64Slice()
	require.NoError(tb, err)
	deadline, err := s.deadline.Int64()
	require.NoError(tb, err)
	first, last := s.before.Val().UnixMilli(), s.after.Val().UnixMilli()
	for moved := first; moved <= last; moved++ {
		for tick := moved; tick <= last; tick++ {
			try := *twin
			switch live := try.end >= moved; { // in its last ms the key is still there
			case live && s.move == persist:
				try.end = math.MaxInt64
			case live && try.end != math.MaxInt64:
				if try.end -= s.move; try.end <= moved {
					try.end = 0 // PEXPIREAT deletes
				}
			}
			a := decide(&try, tick*1000, s.q)
			if late := a.retry - got[2]; s.q.mode == charge && !frozen && a.retry > 0 && late > 0 && late <= (last-tick)*1000 {
				a.retry = got[2] // a charge looks twice
			}
			if s.q.mode == charge && !frozen && a.granted == 0 && got[0] == 1 && try.end <= last {
				over := try
				a = decide(&over, last*1000, request{mode: peek, rate: s.q.rate, period: s.q.period, capacity: s.q.capacity, n: 1})
			}
			same := fmt.Sprint(got) == fmt.Sprint([]int64{a.granted, a.remaining, a.retry, a.reset})
			switch {
			case !same:
			case deadline == -2:
				same = same && try.end <= last
				try.end = 0
			case deadline == -1:
				same = same && try.end == math.MaxInt64
			case !frozen && a.ttl > 0 && deadline > try.end && deadline <= last+a.ttl:
				try.end = deadline // time went on before it was written
			default:
				same = same && try.end == deadline
			}
			if same {
				*twin = try
				return a
			}
		}
	}
	require.Failf(tb, "the script is not the twin", "%v %+v, moved by %d ms, at %d to %d: the script says %v and lives until %d, the twin was %+v",
		s.limit, s.q, s.move, first, last, got, deadline, *twin)
	return answer{}
}

func TestFixedWindowScriptEqualsTwin(t *testing.T) {
	t.Parallel()
	const each = 2000
	for range modelSteps / each {
		runFixedModel(t, seeded(t), each)
	}
}
