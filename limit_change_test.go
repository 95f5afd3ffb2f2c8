package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A move is one call in the middle of use, and what is left after it.
type move struct {
	pass  time.Duration // before the call
	limit Limit         // from now on, if not zero
	do    mode          // peek if not set; a settlement is of the last reservation
	n     int
	free  int
	wait  time.Duration // the RetryAfter: 0 if the call, or after it one unit, is allowed
}

// A limitChange is a rule about changed limits, and moves that prove it. All begin
// with ten.
type limitChange struct {
	rule  string
	moves []move
}

func (c limitChange) run(t *testing.T, s *subject) {
	t.Helper()
	b := s.Limiter.(Base)
	*s.limit = ten
	var reservation Reservation
	for i, m := range c.moves {
		if m.pass > 0 {
			s.pass(m.pass)
		}
		if (m.limit != Limit{}) {
			*s.limit = m.limit
		}
		var r Result
		var err error
		switch m.do {
		case take:
			r, err = b.AllowN(t.Context(), c.rule, m.n)
		case charge:
			r, err = b.Charge(t.Context(), c.rule, m.n)
		case refund:
			r, err = b.Refund(t.Context(), c.rule, m.n)
		case reserving:
			reservation, r, err = b.Reserve(t.Context(), c.rule, m.n)
		case settling:
			r, err = b.Settle(t.Context(), reservation, m.n)
		default:
			r, err = b.Peek(t.Context(), c.rule)
		}
		require.NoError(t, err)
		got := move{m.pass, m.limit, m.do, m.n, r.Remaining, undrifted(r.RetryAfter, m.wait, s.drift())}
		require.Equal(t, m, got, "%s: move %d", c.rule, i)
		require.Equal(t, m.wait == 0, r.Allowed)
		require.Equal(t, *s.limit, r.Limit)
	}
}

// Limits that change in the middle of use do what the constructors say.
func TestLimitChanges(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, s *subject) {
		for _, changes := range [][]limitChange{changesForAll, limitChanges[s.algorithm], debtChanges[s.algorithm], reservationChanges[s.algorithm]} {
			require.NotEmpty(t, changes)
			for _, c := range changes {
				c.run(t, s)
			}
		}
	})
}

var (
	ten        = Per(10, 10*sec).WithBurst(10)
	tenFaster  = Per(20, 10*sec).WithBurst(10)
	tenSlower  = Per(5, 10*sec).WithBurst(10)
	tenShorter = Per(10, 5*sec).WithBurst(10)
	tenLonger  = Per(10, 20*sec).WithBurst(10)
	tenBurst   = ten.WithBurst
)

var changesForAll = []limitChange{
	{"a limit that blocks, or none, leaves what was used", []move{
		{do: take, n: 8, free: 2},
		{limit: Per(0, sec), wait: Never},
		{do: take, n: 1, wait: Never},
		{do: charge, n: 1, wait: Never},
		{limit: Unlimited, do: take, n: 1000, free: unlimited},
		{do: charge, n: 1000, free: unlimited},
		{do: refund, n: 1000, free: unlimited},
		{limit: ten, free: 2},
	}},
	{"what is more than the changed limit ever allows is refused for good", []move{
		{limit: Per(4, 10*sec).WithBurst(4), do: take, n: 4},
		{do: take, n: 5, wait: Never},
		{limit: ten, do: refund, n: 100, free: 10},
		{do: take, n: 11, free: 10, wait: Never},
	}},
}

var limitChanges = map[Algorithm][]limitChange{
	TokenBucket: {
		{"a higher rate: the tokens stay, and the time since a call last took counts at it", []move{
			{do: take, n: 8, free: 2},
			{limit: tenFaster, free: 2},
			{pass: sec, limit: ten, free: 3},
			{limit: tenFaster, free: 4},
			{do: take, n: 4},
			{do: take, n: 1, wait: 500 * ms},
		}},
		{"a lower rate likewise", []move{{do: take, n: 8, free: 2}, {pass: 2 * sec, free: 4}, {limit: tenSlower, free: 3}, {do: take, n: 4, free: 3, wait: 2 * sec}}},
		{"a shorter period is a higher rate", []move{{do: take, n: 8, free: 2}, {pass: 2 * sec, limit: tenShorter, free: 6}}},
		{"a longer period is a lower rate", []move{{do: take, n: 8, free: 2}, {pass: 2 * sec, limit: tenLonger, free: 3}, {do: take, n: 3}, {do: take, n: 1, wait: 2 * sec}}},
		{"a lower burst cuts the tokens, for good when a call takes", []move{
			{do: take, n: 1, free: 9},
			{limit: tenBurst(4), free: 4},
			{do: take, n: 5, free: 4, wait: Never},
			{limit: ten, free: 9},
			{limit: tenBurst(4), do: take, n: 1, free: 3},
			{limit: ten, free: 3},
		}},
		{"a higher burst is filled at the rate", []move{{do: take, n: 10}, {limit: tenBurst(20), do: take, n: 1, wait: sec}, {pass: 15 * sec, free: 15}}},
		{"a full bucket is full also with a higher burst", []move{{free: 10}, {limit: tenBurst(20), free: 20}}},
		{"a bucket that the former limit would have filled may be found full", []move{{do: take, n: 2, free: 8}, {pass: 10 * sec, limit: Per(1, time.Hour).WithBurst(10), free: 10}}},
	},
	LeakyBucket: {
		{"a higher rate: the level stays, and the time since a call last took counts at it", []move{
			{do: take, n: 8, free: 2},
			{limit: tenFaster, free: 2},
			{pass: sec, limit: ten, free: 3},
			{limit: tenFaster, free: 4},
			{do: take, n: 4},
			{do: take, n: 1, wait: 500 * ms},
		}},
		{"a lower rate likewise", []move{{do: take, n: 8, free: 2}, {pass: 2 * sec, free: 4}, {limit: tenSlower, free: 3}, {do: take, n: 4, free: 3, wait: 2 * sec}}},
		{"a shorter period is a higher rate", []move{{do: take, n: 8, free: 2}, {pass: 2 * sec, limit: tenShorter, free: 6}}},
		{"a longer period is a lower rate", []move{{do: take, n: 8, free: 2}, {pass: 2 * sec, limit: tenLonger, free: 3}, {do: take, n: 3}, {do: take, n: 1, wait: 2 * sec}}},
		{"a lower burst cuts the level, for good when a call asks", []move{
			{do: take, n: 8, free: 2},
			{limit: tenBurst(4), wait: sec},
			{limit: ten, free: 2},
			{limit: tenBurst(4), do: take, n: 1, wait: sec},
			{limit: ten, free: 6},
		}},
		{"a higher burst leaves the level", []move{{do: take, n: 8, free: 2}, {limit: tenBurst(20), free: 12}}},
		{"no burst is one of 1", []move{{do: take, n: 8, free: 2}, {limit: Per(10, 10*sec), do: take, n: 1, wait: sec}, {pass: sec, do: take, n: 1}}},
		{"a bucket that the former limit would have drained may be found empty", []move{{do: take, n: 2, free: 8}, {pass: 10 * sec, limit: Per(1, time.Hour).WithBurst(10), free: 10}}},
	},
	FixedWindow: {
		{"a higher rate: what was taken stays taken", []move{{do: take, n: 10}, {limit: tenFaster, free: 10}, {do: take, n: 11, free: 10, wait: 10 * sec}}},
		{"a lower rate likewise", []move{{do: take, n: 8, free: 2}, {limit: tenSlower, do: take, n: 1, wait: 10 * sec}, {limit: ten, free: 2}}},
		{"a shorter period ends the running window at most one such from now", []move{
			{do: take, n: 8, free: 2},
			{limit: tenShorter, do: take, n: 3, free: 2, wait: 5 * sec},
			{limit: ten, do: take, n: 3, free: 2, wait: 5 * sec},
			{pass: 5 * sec, do: take, n: 3, free: 7},
		}},
		{"a shorter period does not lengthen what is left", []move{{do: take, n: 8, free: 2}, {pass: 7 * sec, limit: tenShorter, do: take, n: 3, free: 2, wait: 3 * sec}}},
		{"a longer period begins with the next window", []move{
			{do: take, n: 10},
			{limit: tenLonger, do: take, n: 1, wait: 10 * sec},
			{pass: 10 * sec, do: take, n: 10},
			{do: take, n: 1, wait: 20 * sec},
		}},
		{"the burst is ignored", []move{{do: take, n: 8, free: 2}, {limit: tenBurst(3), free: 2}, {limit: tenBurst(30), free: 2}}},
	},
	SlidingWindowLog: {
		{"a higher rate: the log stays", []move{{do: take, n: 10}, {limit: tenFaster, free: 10}, {do: take, n: 11, free: 10, wait: 10 * sec}}},
		{"a lower rate takes effect in full at once", []move{
			{do: take, n: 4, free: 6},
			{pass: 3 * sec, do: take, n: 4, free: 2},
			{limit: tenSlower, do: take, n: 1, wait: 7 * sec}, // until 4 are left
			{do: take, n: 2, wait: 10 * sec},
			{limit: ten, free: 2},
		}},
		{"a shorter period takes effect in full at once", []move{{do: take, n: 4, free: 6}, {pass: 5 * sec, do: take, n: 2, free: 4}, {limit: tenShorter, free: 8}}},
		{"a longer period counts what the former one had not forgotten", []move{
			{do: take, n: 4, free: 6},
			{pass: 6 * sec, do: take, n: 2, free: 4},
			{pass: 5 * sec, do: take, n: 1, free: 7}, // the 4 are forgotten
			{limit: tenLonger, free: 7},
			{do: take, n: 8, free: 7, wait: 15 * sec},
		}},
		{"a longer period does not count a log that had ended", []move{{do: take, n: 4, free: 6}, {pass: 12 * sec, limit: tenLonger, free: 10}}},
		{"the burst is ignored", []move{{do: take, n: 8, free: 2}, {limit: tenBurst(3), free: 2}, {limit: tenBurst(30), free: 2}}},
	},
	SlidingWindowCounter: {
		{"a higher rate: the counts stay", []move{{do: take, n: 10}, {limit: tenFaster, free: 10}, {pass: 15 * sec, free: 15}}},
		{"a lower rate likewise", []move{
			{do: take, n: 8, free: 2},
			{limit: tenSlower, do: take, n: 1, wait: 13750*ms + us}, // until less than 5 of the 8 count
			{limit: ten, free: 2},
		}},
		{"a shorter period was in force since the running window began", []move{
			{do: take, n: 8, free: 2},
			{pass: 7500 * ms, limit: tenShorter, free: 6}, // a half of the window before
			{pass: 2500 * ms, free: 10},
		}},
		{"a longer period likewise", []move{{do: take, n: 8, free: 2}, {pass: 3 * sec, limit: tenLonger, do: take, n: 3, free: 2, wait: 17*sec + us}}},
		{"the burst is ignored", []move{{do: take, n: 8, free: 2}, {limit: tenBurst(3), free: 2}, {limit: tenBurst(30), free: 2}}},
	},
}

func TestSettleUnderMuchLowerLimit(t *testing.T) {
	t.Parallel()
	baseContract(t, func(t *testing.T, s *subject, b Base) {
		if s.algorithm == LeakyBucket {
			return // its level is cut with the burst
		}
		hundred, few := Per(100, 10*time.Second).WithBurst(100), Per(10, 10*time.Second).WithBurst(10)
		for used, left := range map[int]int{95: 5, 40: 60, 0: 100} {
			*s.limit = hundred
			require.NoError(t, b.Reset(t.Context(), "key"))
			r, _, err := b.Reserve(t.Context(), "key", 95)
			require.NoError(t, err)
			*s.limit = few
			_, err = b.Settle(t.Context(), r, used)
			require.NoError(t, err)
			*s.limit = hundred
			if s.algorithm != TokenBucket || used == 95 { // whose tokens are cut with the burst
				requireRemaining(t, left, b, "key")
			}
		}
	})
}
