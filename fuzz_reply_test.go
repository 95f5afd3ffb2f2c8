package ratelimit

import (
	"bufio"
	"bytes"
	"context"
	"math"
	"net"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// FuzzParse: whatever integers a reply has, it is an answer within bounds or an
// error. What else it may have never gets here: see FuzzServer.
func FuzzParse(f *testing.F) {
	addSteps(f)
	f.Add([]byte{9, 4, 0, 1, 0, 3, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{data: data}
		a := c.algorithm()
		l := c.limit(a)
		capacity := int64(l.capacity(a))
		q := request{rate: int64(l.Rate), period: l.Period.Microseconds(), capacity: capacity, n: c.of(1, 2, capacity, capacity+1)}
		answer, err := q.only(c.reply())
		if err != nil {
			require.Zero(t, answer)
			require.LessOrEqual(t, len(err.Error()), 1000)
			return
		}
		r := answer.result(l)
		require.Equal(t, r.Allowed, r.RetryAfter == 0)
		require.True(t, r.Remaining >= 0 && int64(r.Remaining) <= capacity, "%+v", r)
		require.GreaterOrEqual(t, r.RetryAfter, time.Duration(0))
		require.GreaterOrEqual(t, r.ResetAfter, time.Duration(0))
	})
}

// reply is integers, of any number.
func (c *choices) reply() []int64 {
	values := make([]int64, c.of(4, 4, 4, 4, 4, 0, 1, 3, 5, 100))
	for i := range values {
		values[i] = c.of(0, 1, 0, 5, -1, 2, c.upTo(1<<54), -c.upTo(1<<54), math.MaxInt64, math.MinInt64)
	}
	return values
}

// hugeLength is a length for which go-redis would make room before it reads.
var hugeLength = regexp.MustCompile(`[*$%~>=!|]\d{6,}`)

// FuzzServer: a server that answers whatever it likes to every command, those
// that open a connection included, in both protocols, and then hangs up or says
// no more. A call has a decision within bounds or an error, in time.
func FuzzServer(f *testing.F) {
	for _, replies := range []string{
		"-ERR unknown command\r\n|+OK\r\n|+OK\r\n|*4\r\n:1\r\n:4\r\n:0\r\n:1000\r\n",
		"%1\r\n$5\r\nproto\r\n:3\r\n|+OK\r\n|+OK\r\n|-NOSCRIPT x\r\n|$40\r\nx\r\n|*4\r\n:0\r\n:0\r\n:-1\r\n:1000\r\n",
		"+OK\r\n|-NOSCRIPT x\r\n", "-NOAUTH x\r\n", "-MOVED 1 127.0.0.1:1\r\n|-ASK 1 127.0.0.1:1\r\n", "-LOADING x\r\n", "-READONLY x\r\n",
		"*4\r\n:1\r\n:4\r\n:0", "*4\r\n:1\r\n:4", "$100\r\nx", ":", "\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "*4\r\n,1\r\n,nan\r\n,inf\r\n#t\r\n", "=7\r\ntxt:abc\r\n",
		">2\r\n$10\r\ninvalidate\r\n*0\r\n*4\r\n:1\r\n:4\r\n:0\r\n:9\r\n", "|1\r\n+a\r\n+b\r\n*4\r\n:1\r\n:4\r\n:0\r\n:9\r\n", "!5\r\nERR x\r\n", "(123456789012345678901234567890\r\n",
		"*4\r\n:1\r\n:4\r\n:0\r\n:9\r\n*4\r\n:1\r\n:4\r\n:0\r\n:9\r\n", "*-1\r\n", "*-2\r\n", "$-1\r\n", "_\r\n", "%2\r\n*1\r\n:1\r\n:2\r\n", "~1\r\n%0\r\n", "-\r\n", "+\r\n",
	} {
		for protocol := range 2 {
			f.Add([]byte(replies), protocol+2, protocol == 0)
		}
	}
	f.Fuzz(func(t *testing.T, replies []byte, protocol int, hangsUp bool) {
		if hugeLength.Match(replies) {
			return // see TestHugeReplies
		}
		rdb := newClient(t, &redis.Options{
			Protocol: 2 + protocol&1,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go serveReplies(server, bytes.Split(replies, []byte("|")), hangsUp)
				return client, nil
			},
			DialerRetries: 1,
		})
		limit := PerSecond(5)
		r, err := NewTokenBucket(rdb, limit)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		began := time.Now()
		result, err := r.Allow(ctx, "key")
		require.Less(t, time.Since(began), 2*time.Second, "beyond its context")
		if err != nil {
			require.Equal(t, Result{}, result)
			return
		}
		requireDecision(t, TokenBucket, limit, 1, result.withoutWaits())
	})
}

// withoutWaits is r with waits of any length taken for one of a µs: what a
// server says of them can be checked only for sign and size.
func (r Result) withoutWaits() Result {
	if r.RetryAfter > 0 {
		r.RetryAfter = us
	}
	r.ResetAfter = min(r.ResetAfter, us)
	return r
}

// serveReplies answers each command with the next of the replies. After the last
// it hangs up, or says no more.
func serveReplies(conn net.Conn, replies [][]byte, hangsUp bool) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	for in := bufio.NewReader(conn); ; replies = replies[1:] {
		if _, err := readCommand(in); err != nil {
			return
		}
		if len(replies) == 0 {
			if !hangsUp {
				_, _ = in.ReadByte() // until the client gives up
			}
			return
		}
		if _, err := conn.Write(replies[0]); err != nil {
			return
		}
	}
}

// A server that names a length beyond all memory makes go-redis panic, which is
// an error to the caller.
func TestHugeReplies(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{"*9223372036854775807", "$9223372036854775806", "$9223372036854775807", "~4611686018427387904", "*4\r\n:1\r\n*1152921504606846976"} {
		r, err := NewTokenBucket(startFake(t, func(string) string { return reply }), PerSecond(5))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		result, err := r.Allow(ctx, "key")
		cancel()
		require.Error(t, err, reply)
		require.NotErrorIs(t, err, context.DeadlineExceeded, reply)
		require.Zero(t, result)
	}
}

// A client makes room for the length that a reply names, before it has read it:
// memory is safe only from who does not speak for Redis. Not parallel, as it
// measures what is allocated meanwhile.
func TestLengthOfReplyIsBelieved(t *testing.T) {
	const size = 64 << 20
	r, err := NewTokenBucket(startFake(t, func(string) string { return "*" + strconv.Itoa(size/8) + "\r\n:1" }), PerSecond(5))
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = r.Allow(ctx, "key")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	runtime.ReadMemStats(&after)
	require.GreaterOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(size))
}
