package ratelimit

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const (
	soakEnv       = "RATELIMIT_SOAK"        // how long the calm part of a full soak lasts, such as 10m
	soakReportEnv = "RATELIMIT_SOAK_REPORT" // the file for a full soak's report, beside the test's log
)

// A soak is what the child process of TestSoak does, in two parts: one at full
// speed, then one with faults, for as long as its parent makes them.
//
// Each key is called for a Period, and comes again when it is long gone. So as
// many keys count at any time as had their turn in the last few periods: how
// many does not hang on how fast the calls are.
type soak struct {
	Addr    string
	Lasts   time.Duration // the calm part
	Period  time.Duration // of the limits
	Keys    int
	Callers int
	Every   time.Duration // a sample
}

// keysAround is after how many periods a key comes again: long after its TTL.
const keysAround = 15

// soakPlan is the short soak of the ordinary suite, or the full one.
func soakPlan(t *testing.T) (s soak, full bool) {
	t.Helper()
	text := os.Getenv(soakEnv)
	if text == "" {
		return soak{Lasts: 4 * time.Second, Period: 300 * time.Millisecond, Keys: 3000, Callers: 16, Every: 100 * time.Millisecond}, false
	}
	calm, err := time.ParseDuration(text)
	require.NoError(t, err)
	require.True(t, calm >= 30*time.Second && calm <= 30*time.Minute, "%s is %v, it must be 30s to 30m", soakEnv, calm)
	period := min(calm/60, 10*time.Second)
	keys := min(int(calm/(600*time.Microsecond)), 1_000_000) // from 10m on
	return soak{Lasts: calm, Period: period, Keys: keys, Callers: 64, Every: calm / 300}, true
}

// Nothing grows while all algorithms decide at full speed, every key goes when
// its time is up, and faults leave nothing behind.
func TestSoak(t *testing.T) {
	t.Parallel()
	plan, full := soakPlan(t)
	server := startServer(t)
	plan.Addr = server.Addr()
	report := soakReport{soak: plan}
	report.Server = serverVersion(t, server)

	text, err := json.Marshal(plan)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), plan.Lasts*3/2+2*time.Minute)
	defer cancel()
	cmd := childCommand(ctx, "soak")
	cmd.Env = append(cmd.Env, soakEnv+"="+string(text))
	var said strings.Builder
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)

	if lines.Scan() { // the calm part is over
		report.Faults = soakFaults(t, server, plan.Lasts/5)
		_, err = io.WriteString(in, "\n")
		require.NoError(t, err)
	}
	lines.Scan()
	require.NoError(t, cmd.Wait(), "%s", &said)
	require.NoError(t, json.Unmarshal(lines.Bytes(), &report.soakResult))
	t.Log("\n" + report.markdown())
	report.check(t)
	if path := os.Getenv(soakReportEnv); full && path != "" {
		require.NoError(t, os.WriteFile(path, []byte(report.markdown()), 0o600))
	}
}

// soakFaults makes faults for a time, one after the other, and counts them.
func soakFaults(t *testing.T, server *server, lasts time.Duration) (faults int) {
	t.Helper()
	rdb := newClient(t, &redis.Options{Addr: server.Addr()})
	for began := time.Now(); time.Since(began) < lasts; faults++ {
		switch faults % 3 {
		case 0:
			require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		case 1:
			require.NoError(t, rdb.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
		case 2:
			server.restart()
		}
		time.Sleep(max(lasts/20, 50*time.Millisecond)) // what lets the callers come back in between
	}
	return faults
}

func serverVersion(t *testing.T, server *server) string {
	t.Helper()
	info, err := server.Client(t).InfoMap(t.Context(), "server").Result()
	require.NoError(t, err)
	if v := info["Server"]["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + info["Server"]["redis_version"]
}

// check holds the report to what is promised. Samples are taken while no call
// is under way and after a garbage collection, so little of them is chance.
func (r *soakReport) check(t *testing.T) {
	t.Helper()
	first, last := r.first(), r.last()
	require.Zero(t, r.Calm.Errors, "errors in the calm part")
	require.Positive(t, r.Calm.Allowed)
	require.Positive(t, r.Calm.Denied)
	require.Zero(t, r.Immortal, "keys without a TTL")

	const ending = 5 * maxFlights // goroutines of flights that have just landed
	require.LessOrEqual(t, last.Goroutines, first.Goroutines+ending)
	require.LessOrEqual(t, r.AfterCalm.Goroutines, r.Start.Goroutines)
	// Not all callers may have been under way at once from the start on.
	require.LessOrEqual(t, last.Pool, max(first.Pool, r.Callers))
	require.LessOrEqual(t, last.Clients, max(first.Clients, r.Start.Clients+r.Callers))
	require.LessOrEqual(t, float64(last.Heap), 1.1*float64(first.Heap)+1<<20, "Go heap")
	require.LessOrEqual(t, float64(last.Memory), 1.15*float64(first.Memory)+1<<20, "Redis memory")

	// When all keys have gone Redis is as empty as at the start, but for its
	// scripts and connections.
	require.Zero(t, r.AfterCalm.Keys)
	require.LessOrEqual(t, r.AfterCalm.Memory, r.Start.Memory+4<<20, "Redis memory, empty again")

	require.Positive(t, r.Faults)
	require.Positive(t, r.Faulty.Allowed)
	require.Zero(t, r.AfterFaults.Keys)
	require.LessOrEqual(t, r.AfterFaults.Goroutines, r.AfterCalm.Goroutines, "after faults")
	require.LessOrEqual(t, r.AfterFaults.Pool, last.Pool, "after faults")
	require.LessOrEqual(t, r.AfterFaults.Clients, last.Clients, "after faults")
	require.LessOrEqual(t, float64(r.AfterFaults.Heap), 1.1*float64(last.Heap)+1<<20, "Go heap after faults")
	require.LessOrEqual(t, r.End, r.Begin, "goroutines are left: %s", r.Stacks)
}

var _ = registerChild("soak", func() int {
	var s soak
	if err := json.Unmarshal([]byte(os.Getenv(soakEnv)), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	result, err := s.run(func() {
		fmt.Println("calm part over")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // the faults are over, or the parent has gone
	})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
})
