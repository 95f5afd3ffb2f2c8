package proof

import (
	"context"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirgo/ratelimit"
)

// checkPatience is how long the check of one history may take. It takes some
// milliseconds; a history for which it takes longer counts as not shown.
const checkPatience = 10 * time.Second

// check tells whether there is an order of h's operations, in which none comes
// before one that had returned when it was called, that gets the same answers
// from a twin: a limiter that is called by one caller, and known to be right.
func (h history) check(newTwin func() ratelimit.Limiter) porcupine.CheckResult {
	m := model{newTwin: newTwin, began: h.began}
	for _, o := range h.operations {
		if l := o.Input.(call).limit; !slices.Contains(m.limits, l) {
			m.limits = append(m.limits, l)
		}
	}
	return porcupine.CheckOperationsTimeout(porcupine.Model{
		Init: func() any { return state{left: m.left(newTwin())} },
		Step: func(s, input, output any) (bool, any) {
			return m.step(s.(state), input.(call), output.(ratelimit.Result))
		},
		Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
	}, h.operations, checkPatience)
}

type model struct {
	newTwin func() ratelimit.Limiter
	limits  []ratelimit.Limit // those of the history's calls
	began   time.Time
}

// A state is the calls since the last Reset that have made a difference, and
// what they have left: what remains under each of the limits.
type state struct {
	calls []call
	left  []int
}

// equal tells whether the same calls, in whatever order, have left the same. If
// states that differ were taken for equal, the check might miss an order that
// explains a history, but never accept one that does not.
func (s state) equal(other state) bool {
	if len(s.calls) != len(other.calls) || !slices.Equal(s.left, other.left) {
		return false
	}
	count := map[call]int{}
	for i := range s.calls {
		count[s.calls[i]]++
		count[other.calls[i]]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// step is whether result can be the answer to c in state s, and the state after it.
func (m model) step(s state, c call, result ratelimit.Result) (bool, state) {
	twin := m.newTwin()
	for _, past := range s.calls {
		ask(twin, past)
	}
	if !m.agree(ask(twin, c), result) {
		return false, s
	}
	left := m.left(twin)
	switch {
	case c.method == "Reset":
		return true, state{nil, left}
	case slices.Equal(left, s.left):
		return true, s // a refusal or a Peek, as a rule
	default:
		return true, state{append(slices.Clip(s.calls), c), left}
	}
}

func (m model) left(twin ratelimit.Limiter) []int {
	left := make([]int, len(m.limits))
	for i, l := range m.limits {
		left[i] = ask(twin, call{method: "Peek", limit: l}).Remaining
	}
	return left
}

// ask asks a twin, which must have an answer.
func ask(twin ratelimit.Limiter, c call) ratelimit.Result {
	result, err := c.of(context.Background(), twin, "key")
	if err != nil {
		panic(err)
	}
	return result
}

// agree tells whether two answers are equal, but for the time that has gone by
// in the history and in its replay, and for what Redis rounds up to a whole
// millisecond. Time at one rate is up to most times as much at another.
func (m model) agree(want, got ratelimit.Result) bool {
	tolerance := most*time.Since(m.began) + time.Millisecond
	near := func(a, b time.Duration) bool {
		return a == b || a != 0 && b != 0 && a != ratelimit.Never && b != ratelimit.Never && (a-b).Abs() <= tolerance
	}
	return want.Allowed == got.Allowed && want.Limit == got.Limit && want.Remaining == got.Remaining &&
		near(want.RetryAfter, got.RetryAfter) && near(want.ResetAfter, got.ResetAfter)
}
