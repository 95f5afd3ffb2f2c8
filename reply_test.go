package ratelimit

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A replied call asks for 3 of 5 units of a limiter.
type repliedCall struct {
	name  string
	whole string // what is granted if it is allowed
	do    func(ctx context.Context, r *Redis) (any, error)
}

var repliedCalls = []repliedCall{
	{"AllowN", "3", func(ctx context.Context, r *Redis) (any, error) { return r.AllowN(ctx, "key", 3) }},
	{"AllowUpTo", "3", func(ctx context.Context, r *Redis) (any, error) {
		n, result, err := r.AllowUpTo(ctx, "key", 3)
		if n != 0 {
			return n, err
		}
		return result, err
	}},
	{"Charge", "1", func(ctx context.Context, r *Redis) (any, error) { return r.Charge(ctx, "key", 3) }},
	{"Refund", "1", func(ctx context.Context, r *Redis) (any, error) { return r.Refund(ctx, "key", 3) }},
	{"Reserve", "3", func(ctx context.Context, r *Redis) (any, error) {
		reservation, result, err := r.Reserve(ctx, "key", 3)
		if reservation != (Reservation{}) {
			return reservation, err
		}
		return result, err
	}},
	{"Settle", "1", func(ctx context.Context, r *Redis) (any, error) {
		return r.Settle(ctx, Reservation{Key: "key", N: 3, ID: "id"}, 3)
	}},
	{"AllowAll", "3", func(ctx context.Context, r *Redis) (any, error) {
		result, all, err := AllowAll(ctx, Request{r, "key", 3})
		if all != nil {
			return all, err
		}
		return result, err
	}},
	{"AllowEach", "3", func(ctx context.Context, r *Redis) (any, error) {
		o := AllowEach(ctx, Request{r, "key", 3})[0]
		return o.Result, o.Err
	}},
}

// replyOf writes the four integers of an answer in RESP.
func replyOf(granted, remaining, retry, reset string) string {
	return "*4\r\n:" + strings.Join([]string{granted, remaining, retry, reset}, "\r\n:")
}

// ask makes the call of a limiter whose server answers so.
func (c repliedCall) ask(t *testing.T, rdb redis.UniversalClient) (any, error) {
	t.Helper()
	r, err := NewTokenBucket(rdb, PerSecond(5))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return c.do(ctx, r)
}

// requireNoDecision requires that a reply is an error of every call, and that no
// call then has a result.
func requireNoDecision(t *testing.T, calls []repliedCall, reply, want string) {
	t.Helper()
	rdb := startFake(t, func(string) string { return reply })
	for _, c := range calls {
		result, err := c.ask(t, rdb)
		require.Error(t, err, "%s: %q was taken: %+v", c.name, reply, result)
		require.NotErrorIs(t, err, ErrSettled, "%s: %q", c.name, reply)
		require.ErrorContains(t, err, want, "%s: %q", c.name, reply)
		require.Equal(t, Result{}, result, "%s: %q", c.name, reply)
	}
}

// The replies that the hostile ones differ from.
func TestGoodReplies(t *testing.T) {
	t.Parallel()
	for _, c := range repliedCalls {
		for _, reply := range []string{
			replyOf(c.whole, "2", "0", "600000"), replyOf("0", "0", "1000", "2000"),
			"*4\r\n$1\r\n" + c.whole + "\r\n$1\r\n2\r\n$1\r\n0\r\n$1\r\n9",
		} {
			result, err := c.ask(t, startFake(t, func(string) string { return reply }))
			require.NoError(t, err, "%s: %q", c.name, reply)
			require.NotZero(t, result)
		}
		if c.name == "Settle" {
			_, err := c.ask(t, startFake(t, func(string) string { return replyOf("-1", "5", "0", "0") }))
			require.ErrorIs(t, err, ErrSettled)
		}
	}
}

// Whatever else a server says is an error.
func TestHostileReplies(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		"*0", "*-1", "$-1", "+OK", ":1", "$5\r\nhello", "*1\r\n:1", "*3\r\n:3\r\n:2\r\n:0", "*5\r\n:3\r\n:2\r\n:0\r\n:9\r\n:9",
		"*8\r\n:3\r\n:2\r\n:0\r\n:9\r\n:3\r\n:2\r\n:0\r\n:9",
		"*4\r\n*0\r\n:2\r\n:0\r\n:9", "*4\r\n$-1\r\n:2\r\n:0\r\n:9", "*4\r\n$1\r\nx\r\n:2\r\n:0\r\n:9", "*4\r\n:3\r\n:2\r\n:0\r\n$0\r\n",
		"*4\r\n$20\r\n99999999999999999999\r\n:2\r\n:0\r\n:9", "*4\r\n$3\r\n1.5\r\n:2\r\n:0\r\n:9",
	} {
		requireNoDecision(t, repliedCalls, reply, "")
	}
	for _, n := range [][4]string{
		// More than was asked for.
		{"4", "2", "0", "9"},
		{"9223372036854775807", "2", "0", "9"},
		// Allowed and refused.
		{"3", "2", "5", "9"},
		{"0", "2", "0", "9"},
		{"3", "2", "-1", "9"},
		// More than there is.
		{"3", "6", "0", "9"},
		{"3", "-1", "0", "9"},
		{"0", "6", "5", "9"},
		// Times that are none.
		{"0", "2", "-2", "9"},
		{"0", "2", "9223372036854775807", "9"},
		{"0", "2", "-9223372036854775808", "9"},
		{"3", "2", "0", "-1"},
		{"3", "2", "0", "9223372036854775807"},
		{"3", "2", "0", "9007199254740993"},
	} {
		requireNoDecision(t, repliedCalls, replyOf(n[0], n[1], n[2], n[3]), "out of bounds")
	}
}

// One bad answer of a group's is an error of all, and AllowAll says nothing of the
// others.
func TestHostileRepliesToGroups(t *testing.T) {
	t.Parallel()
	good := ":3\r\n:2\r\n:0\r\n:9"
	for _, reply := range []string{
		"*4\r\n" + good, "*7\r\n" + good + "\r\n:3\r\n:2\r\n:0", "*12\r\n" + strings.Repeat(good+"\r\n", 2) + good,
		"*8\r\n" + good + "\r\n$3\r\nERR\r\n:2\r\n:0\r\n:9", "*8\r\n" + good + "\r\n:4\r\n:2\r\n:0\r\n:9", "*8\r\n" + good + "\r\n:0\r\n:2\r\n:0\r\n:9",
	} {
		r, err := NewTokenBucket(startFake(t, func(string) string { return reply }), PerSecond(5))
		require.NoError(t, err)
		result, all, err := AllowAll(t.Context(), Request{r, "key", 3}, Request{r, "other", 3})
		require.Error(t, err, "%q", reply)
		require.Zero(t, result)
		require.Nil(t, all)
	}
}

func TestHostilePartialGrants(t *testing.T) {
	t.Parallel()
	for _, c := range repliedCalls {
		switch c.name {
		case "AllowN", "Reserve", "AllowAll", "AllowEach":
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				requireNoDecision(t, []repliedCall{c}, replyOf("1", "2", "0", "9"), "out of bounds")
			})
		}
	}
}

func TestHostileNegativeGrants(t *testing.T) {
	t.Parallel()
	for _, c := range repliedCalls {
		for _, granted := range []string{"-1", "-2", "-9223372036854775808"} {
			if c.name == "Settle" && granted == "-1" {
				continue
			}
			t.Run(c.name+granted, func(t *testing.T) {
				t.Parallel()
				requireNoDecision(t, []repliedCall{c}, replyOf(granted, "2", "0", "9"), "")
			})
		}
	}
}
