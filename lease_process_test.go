package ratelimit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// leaseInProcesses does the runs in eight processes at once and adds up their
// reports.
func leaseInProcesses(t *testing.T, runs []leaseRun) []leaseReport {
	t.Helper()
	text, err := json.Marshal(runs)
	require.NoError(t, err)
	type child struct {
		*exec.Cmd
		begin io.WriteCloser
		out   *bufio.Reader
	}
	var children []child
	for range leaseProcesses {
		cmd := childCommand(t.Context(), "lease")
		cmd.Env = append(cmd.Env, leaseEnv+"="+string(text))
		cmd.Stderr = new(bytes.Buffer)
		begin, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		children = append(children, child{cmd, begin, bufio.NewReader(out)})
	}
	for _, child := range children {
		_, err := child.out.ReadString('\n')
		require.NoError(t, err, "%s", child.Stderr)
	}
	began := time.Now().Add(20 * time.Millisecond)
	for _, child := range children {
		require.NoError(t, json.NewEncoder(child.begin).Encode(began))
	}
	sum := make([]leaseReport, len(runs))
	for _, child := range children {
		var reports []leaseReport
		require.NoError(t, json.NewDecoder(child.out).Decode(&reports), "%s", child.Stderr)
		require.NoError(t, child.Wait(), "%s", child.Stderr)
		for i, report := range reports {
			require.LessOrEqual(t, report.Held, defaultLeaseBlock)
			sum[i].Admitted += report.Admitted
			sum[i].Held += report.Held
			if sum[i].ByMilli == nil {
				sum[i].ByMilli = make([]int, len(report.ByMilli))
			}
			for j, n := range report.ByMilli {
				sum[i].ByMilli[j] += n
			}
		}
	}
	return sum
}

// Eight processes lease one hot key: from a limit that they use up, and for some
// time from one that they can't, to the unit no more than Redis has counted; and
// from one whose units come back, in no span of time more than Redis lets pass in
// one that is longer by MaxAge.
func TestLeaseInProcesses(t *testing.T) {
	t.Parallel()
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv(leaseForEnv), "400ms"))
	require.NoError(t, err)
	var runs []leaseRun
	var after time.Duration
	add := func(a Algorithm, limit Limit, lasts time.Duration) {
		runs = append(runs, leaseRun{a, uniqueKey(t), limit.WithBurst(limit.Rate), after, lasts})
		after += lasts + 20*time.Millisecond
	}
	for _, a := range allAlgorithms {
		add(a, Per(2000, 200*time.Millisecond), lasts)
	}
	add(FixedWindow, Per(maxUnits, maxPeriod), lasts)
	for _, a := range allAlgorithms {
		add(a, Per(20_000, maxPeriod), 0)
	}
	for i, sum := range leaseInProcesses(t, runs) {
		if runs[i].Limit.Period == maxPeriod {
			runs[i].requireCounted(t, sum)
		} else {
			runs[i].requireInSpans(t, sum)
		}
	}
}

func (run *leaseRun) requireCounted(t *testing.T, sum leaseReport) {
	t.Helper()
	r, err := newRedis(run.Algorithm, sharedRedis(t), run.Limit, []Option{WithPrefix(run.Prefix)})
	require.NoError(t, err)
	used := run.Limit.Rate - must(r.Peek(t.Context(), "key")).Remaining
	require.NoError(t, r.Reset(t.Context(), "key"))
	t.Logf("%s of %v: %d handed out, %d counted, %d in blocks at the end", run.Algorithm, run.Limit, sum.Admitted, used, sum.Held)
	require.Positive(t, sum.Admitted)
	require.LessOrEqual(t, sum.Admitted+sum.Held, used)
	if run.For == 0 {
		require.Equal(t, run.Limit.Rate, used)
	}
}

// requireInSpans looks, for the buckets, for the most in any span less what comes
// in in it, and for the windows, for the most in a span shorter by MaxAge.
func (run *leaseRun) requireInSpans(t *testing.T, sum leaseReport) {
	t.Helper()
	rate, period := run.Limit.Rate, run.Limit.Period.Milliseconds()
	maxAge, perMilli := period/10, float64(rate)/float64(period)
	span := period - maxAge - leaseSlack
	burst, most := sum.most(perMilli), sum.mostIn(int(span))
	t.Logf("%s of %v: %d handed out in %v, at most %d in %d ms, a burst of %.0f",
		run.Algorithm, run.Limit, sum.Admitted, run.For, most, span, burst)
	require.Positive(t, most)
	switch run.Algorithm {
	case TokenBucket, LeakyBucket:
		require.LessOrEqual(t, burst, float64(rate)+perMilli*float64(maxAge+leaseSlack))
	case SlidingWindowLog:
		require.LessOrEqual(t, most, rate)
	case FixedWindow, SlidingWindowCounter:
		require.LessOrEqual(t, most, 2*rate)
	}
}

// mostIn is the most units in a span of so many ms.
func (report leaseReport) mostIn(span int) (most int) {
	sum := 0
	for i, n := range report.ByMilli {
		sum += n
		if i >= span {
			sum -= report.ByMilli[i-span]
		}
		most = max(most, sum)
	}
	return most
}

// most is the most by which the units in any span were more than perMilli in
// each of its ms.
func (report leaseReport) most(perMilli float64) (most float64) {
	sum := 0.0
	for _, n := range report.ByMilli {
		sum = max(sum, 0) + float64(n)
		most = max(most, sum)
		sum -= perMilli
	}
	return most
}
