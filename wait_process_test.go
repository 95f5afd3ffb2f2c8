package ratelimit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const competitionEnv = "RATELIMIT_TEST_COMPETITION"

var _ = registerChild("compete", func() int {
	if err := competeInChild(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
})

// competeInChild begins when there is no more to read.
func competeInChild(begin io.Reader, out io.Writer) error {
	var c competition
	if err := json.Unmarshal([]byte(os.Getenv(competitionEnv)), &c); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(addrEnv)})
	defer rdb.Close()
	r, err := NewTokenBucket(rdb, PerSecond(10), WithPrefix(os.Getenv(competitionEnv+"_PREFIX")))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := r.Peek(ctx, "key"); err != nil { // with a connection and the script
		return err
	}
	fmt.Fprintln(out, "ready")
	if _, err := io.Copy(io.Discard, begin); err != nil {
		return err
	}
	if err := c.run(ctx, &slowLimiter{Limiter: r}); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(c)
}

// competeInProcesses shares c out to two processes, on a token bucket that has
// nothing left.
func competeInProcesses(t *testing.T, c competition) competition {
	t.Helper()
	prefix := uniqueKey(t)
	half := c
	half.Waiters /= 2
	text, err := json.Marshal(half)
	require.NoError(t, err)

	type child struct {
		*exec.Cmd
		begin io.Closer
		out   io.Reader
	}
	var children []child
	for range 2 {
		cmd := childCommand(t.Context(), "compete")
		cmd.Env = append(cmd.Env, competitionEnv+"="+string(text), competitionEnv+"_PREFIX="+prefix)
		cmd.Stderr = new(bytes.Buffer)
		begin, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		children = append(children, child{cmd, begin, out})
	}
	for _, child := range children {
		var ready string
		_, err := fmt.Fscanln(child.out, &ready)
		require.NoError(t, err, "%s", child.Stderr)
	}
	r, err := NewTokenBucket(sharedRedis(t), PerSecond(10), WithPrefix(prefix))
	require.NoError(t, err)
	drained, err := r.AllowN(t.Context(), "key", 10)
	require.NoError(t, err)
	require.True(t, drained.Allowed)
	for _, child := range children {
		require.NoError(t, child.begin.Close())
	}
	for _, child := range children {
		var half competition
		require.NoError(t, json.NewDecoder(child.out).Decode(&half), "%s", child.Stderr)
		require.NoError(t, child.Wait(), "%s", child.Stderr)
		c.Waits = append(c.Waits, half.Waits...)
		c.Cut = append(c.Cut, half.Cut...)
		c.Calls += half.Calls
	}
	slices.Sort(c.Waits)
	return c
}

// 50 waiters in two processes on a limit of 10 a second: the first fair wait is
// 0.1 s and the last 5 s.
func TestWaitOnRedis(t *testing.T) {
	t.Parallel()
	c := competeInProcesses(t, competition{Waiters: 50})
	require.Len(t, c.Waits, 50)
	t.Logf("%.1f calls a unit, the longest wait %v", c.callsPerUnit(), c.longest())
	for i, wait := range c.Waits {
		fair := time.Duration(i+1) * 100 * time.Millisecond
		require.GreaterOrEqual(t, wait, fair-100*time.Millisecond, "%d more than the limit", i)
		require.LessOrEqual(t, wait, 3*fair+200*time.Millisecond, "%d was starved", i)
	}
	require.Less(t, c.longest(), 10*time.Second)
	require.Less(t, c.callsPerUnit(), 20.0)
}
