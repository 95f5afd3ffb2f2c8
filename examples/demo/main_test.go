package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noRedis is an address where nothing listens.
const noRedis = "127.0.0.1:1"

func TestBadFlags(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { taken.Close() })
	_, takenPort, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)

	for name, tt := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"unknown flag":   {[]string{"-redis", "x"}, 2, "-redis"},
		"stray argument": {[]string{"8080"}, 2, `unexpected argument "8080"`},
		"port too large": {[]string{"-port", "65536"}, 2, "0 to 65535"},
		"port in words":  {[]string{"-port", "http"}, 2, "0 to 65535"},
		"no host":        {[]string{"-host", ""}, 2, "-host is empty"},
		"redis port 0":   {[]string{"-redis-port", "0"}, 2, "1 to 65535"},
		"url and host":   {[]string{"-redis-url", "redis://localhost", "-redis-host", "localhost"}, 2, "goes without"},
		"not a url":      {[]string{"-redis-url", "http://user:hush@localhost"}, 2, "must be redis://"},
		"port is taken":  {[]string{"-host", "127.0.0.1", "-port", takenPort}, 1, "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, tt.status, run(t.Context(), tt.args, noRedis, &stdout, &stderr))
			require.Empty(t, stdout.String())
			require.Contains(t, stderr.String(), tt.says)
			require.NotContains(t, stderr.String(), "hush")
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"))
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-h"}, noRedis, &stdout, &stderr))
	require.Contains(t, stdout.String(), "usage: demo")
	require.Empty(t, stderr.String())
}

func TestRedisFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ host, port, url, addr string }{
		{"", "", "", ""},
		{"redis.internal", "", "", "redis.internal:6379"},
		{"", "6380", "", "localhost:6380"},
		{"::1", "6380", "", "[::1]:6380"},
		{"", "", "redis://:secret@redis.internal:6381/2", "redis.internal:6381"},
	} {
		opts, err := redisOptions(tt.host, tt.port, tt.url)
		require.NoError(t, err)
		if tt.addr == "" {
			require.Nil(t, opts)
			continue
		}
		require.Equal(t, tt.addr, opts.Addr)
	}
}

// Without a Redis it brings one, on which all of it works.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "", noRedis)
	s := d.state()
	require.True(t, s.Redis.Embedded)
	require.Contains(t, s.Redis.Name, "embedded: no Redis answers at "+noRedis)
	d.post("/config", map[string]any{"period_ms": 30_000}, http.StatusOK, nil)
	d.post("/test", map[string]any{"count": 15}, http.StatusOK, nil)
	eventually(t, func() bool {
		for _, p := range d.state().Panels {
			if p.Last == nil || p.Last.Allowed || p.Key == nil || p.Key.Type == "" || p.Key.TTL <= 0 {
				return false
			}
		}
		return true
	}, "miniredis does not show the keys")
}

func TestTakesTheUsualRedis(t *testing.T) {
	t.Parallel()
	addr := redisAddr(t)
	s := startDemo(t, "", addr).state()
	require.False(t, s.Redis.Embedded)
	require.True(t, s.Redis.Up)
	require.Contains(t, s.Redis.Name, addr)
}

// The real program ends on both signals, with an event stream open.
func TestSignals(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "demo")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	addr := redisAddr(t)

	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		port := strings.TrimPrefix(freeAddr(t), "127.0.0.1:")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, program, "-host", "127.0.0.1", "-port", port, "-redis-url", "redis://"+addr)
		require.NoError(t, cmd.Start())
		var response *http.Response
		eventually(t, func() bool {
			response, err = http.Get("http://127.0.0.1:" + port + "/events") //nolint:bodyclose // below
			return err == nil
		}, "the demo does not start")
		require.NoError(t, cmd.Process.Signal(signal))
		require.NoError(t, cmd.Wait(), signal)
		response.Body.Close()
		cancel()
	}
}

func TestLocalNames(t *testing.T) {
	t.Parallel()
	for host, local := range map[string]bool{
		"localhost": true, "localhost:8080": true, "127.0.0.1:8080": true, "[::1]:8080": true, "[::1]": true,
		"": false, "localhost.example.com": false, "example.com:8080": false, "192.0.2.1": false,
	} {
		require.Equal(t, local, isLocalName(host), strconv.Quote(host))
	}
}
