package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

// The stream begins with all there is, outlives the server's timeouts, and
// ends when the program does.
func TestEvents(t *testing.T) {
	t.Parallel()
	d := startDemo(t, redisAddr(t), "")
	response, err := http.Get(d.url + "/events")
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	next := func() (s state) {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				require.NoError(t, json.Unmarshal([]byte(data), &s))
				return s
			}
		}
		require.FailNow(t, "the stream ends early", lines.Err())
		return s
	}
	first := next()
	require.NotEmpty(t, first.Bounds)
	require.Len(t, first.Panels[0].Bins, binsKept)
	newest := first.Panels[0].First + binsKept - 2

	d.post("/test", `{"count":3}`, http.StatusOK, nil)
	shown := 0
	for began := time.Now(); time.Since(began) < 11*time.Second; {
		s := next()
		require.Empty(t, s.Bounds)
		p := s.Panels[2]
		require.Len(t, p.Bins, brief)
		require.LessOrEqual(t, p.First, newest+2, "bins are missing")
		for i, b := range p.Bins[:brief-1] { // the last one is not over yet
			if p.First+int64(i) > newest {
				shown += b[0]
			}
		}
		newest = p.First + brief - 2
	}
	require.Equal(t, 3, shown)

	began := time.Now()
	d.stop()
	require.Less(t, time.Since(began), 3*time.Second)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err, "the stream was cut off")
}

func TestRedisStopsAndStarts(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	d := startDemo(t, server.addr, "")
	d.post("/traffic", map[string]any{"mode": steady, "per_second": 50}, http.StatusOK, nil)
	eventually(t, func() bool { return d.panel(ratelimit.TokenBucket).Last != nil }, "no traffic")

	server.stop(t)
	eventually(t, func() bool { return !d.state().Redis.Up }, "the outage does not show")
	require.NotEmpty(t, d.state().Redis.Error)
	var answer struct{ Results []volley }
	d.post("/test", `{"count":50}`, http.StatusOK, &answer)
	for _, r := range answer.Results {
		require.Equal(t, 1, r.Undecided, r.Algorithm)
		require.NotEmpty(t, r.Last.Error)
	}
	d.post("/reset", `{}`, http.StatusServiceUnavailable, nil)

	server.start(t)
	eventually(t, func() bool { return d.state().Redis.Up }, "it does not recover")
	eventually(t, func() bool { return d.panel(ratelimit.TokenBucket).Last.Error == "" }, "no decisions after the outage")
	require.LessOrEqual(t, d.panel(ratelimit.SlidingWindowLog).Most, firstConfig.Rate)
	require.Contains(t, d.state().Redis.Name, "Redis ")
}

// A Redis that hangs is as good as away.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	d := startDemo(t, server.addr, "")
	require.NoError(t, server.cmd.Process.Signal(syscall.SIGSTOP))
	eventually(t, func() bool { return !d.state().Redis.Up }, "the outage does not show")
	require.Equal(t, "Redis does not answer within 300ms", d.state().Redis.Error)
	began := time.Now()
	d.post("/test", `{"count":100}`, http.StatusOK, nil)
	d.post("/config", `{"rate":9}`, http.StatusOK, nil)
	require.Less(t, time.Since(began), 3*time.Second)
	require.NoError(t, server.cmd.Process.Signal(syscall.SIGCONT))
	eventually(t, func() bool { return d.state().Redis.Up }, "it does not recover")
}

// A service starts while Redis is away.
func TestStartsWithoutRedis(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	d := startDemo(t, addr, "")
	eventually(t, func() bool { return !d.state().Redis.Up }, "the outage does not show")
	require.Equal(t, "Redis at "+addr, d.state().Redis.Name)
}
