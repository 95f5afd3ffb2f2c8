package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func openTestSite(t *testing.T, delay time.Duration) *site {
	t.Helper()
	s, err := openSite(t.Context(), false, delay)
	require.NoError(t, err)
	t.Cleanup(s.close)
	return s
}

// A relay makes each round trip longer, and calls that are on their way at once
// do not wait for each other.
func TestDelay(t *testing.T) {
	t.Parallel()
	const delay, callers = 20 * time.Millisecond, 16 // fewer than the client has connections
	s := openTestSite(t, delay)
	decide, err := ping(t.Context(), s, 0)
	require.NoError(t, err)
	l := &load{callers: callers, keys: 1, cancel: true}
	_, err = l.run(t.Context(), decide, nil, delay) // connects
	require.NoError(t, err)
	got, err := l.run(t.Context(), decide, nil, 25*delay)
	require.NoError(t, err)
	for _, calls := range l.calls {
		for _, took := range calls {
			require.GreaterOrEqual(t, time.Duration(took), delay-2*time.Millisecond)
		}
	}
	// One after the other would be 25 in that time. A busy machine may lose some of 16 × 25.
	require.Greater(t, got.decisions, 3*25)
	require.LessOrEqual(t, got.decisions, (callers+1)*28)
}

// What a script does is told apart from what is sent.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := openTestSite(t, 0)
	makeups, err := learn(t.Context(), s, subjects)
	require.NoError(t, err)
	require.Equal(t, makeup{"evalsha": 1, "incrby": 0, "pexpire": 0, "pttl": 0}, makeups["ulule"])
	require.Equal(t, makeup{"ping": 1}, makeups["PING"])
	require.Equal(t, makeup{"hmget": 1, "hset": 1}, makeups[plainName])
	for _, sub := range subjects {
		if sub.ours {
			require.InDelta(t, 1, makeups[sub.name]["evalsha"], 0, sub.name)
		}
	}
}

// A limiter that does not limit is not measured.
func TestProve(t *testing.T) {
	t.Parallel()
	s := openTestSite(t, 0)
	require.NoError(t, prove(t.Context(), redisRate, s, "redis_rate"))
	require.ErrorContains(t, prove(t.Context(), incr, s, "INCR"), "call 4 is allowed")
}

// Copies of a key stand for as many that decisions would have made.
func TestMultiply(t *testing.T) {
	t.Parallel()
	s := openTestSite(t, 0)
	for _, sub := range subjects {
		if !sub.grows {
			continue
		}
		require.NoError(t, s.flush(t.Context()))
		in, err := enter(t.Context(), s, []subject{sub}, 10, nil)
		require.NoError(t, err)
		require.NoError(t, fill(t.Context(), in[0], keyNames(1), 9))
		require.NoError(t, multiply(t.Context(), s.nodes[0], 1, 50))
		n, err := s.nodes[0].DBSize(t.Context()).Result()
		require.NoError(t, err)
		require.EqualValues(t, 50, n, sub.name)
		if sub.floor() {
			continue
		}
		for _, want := range []bool{true, false} { // nine of ten are taken there too
			allowed, err := in[0].decide(t.Context(), keyName(49), 1)
			require.NoError(t, err)
			require.Equal(t, want, allowed, sub.name)
		}
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	s := openTestSite(t, 0)
	weights, err := weigh(t.Context(), s, subjects)
	require.NoError(t, err)
	for _, w := range weights {
		switch w.subject {
		case "fixed-window", "ulule":
			require.Equal(t, []int64{0, 0}, []int64{w.over, w.full}, "%s keeps an integer", w.subject)
		case "sliding-log", "zset-log":
			require.Greater(t, w.full, int64(8*fullUnits), w.subject)
		default:
			require.Positive(t, w.bytes, w.subject)
			require.Less(t, w.full, int64(200), w.subject)
		}
	}
}
