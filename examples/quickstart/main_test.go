package main

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

// noRedis is an address where nothing listens.
const noRedis = "127.0.0.1:1"

type outcome struct {
	status         int
	stdout, stderr string
	took           time.Duration
}

func runWith(usual string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	start := time.Now()
	status := run(args, usual, &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String(), time.Since(start)}
}

func TestShowsAllFive(t *testing.T) {
	t.Parallel()
	local, given := miniredis.RunT(t), miniredis.RunT(t)
	for _, m := range []*miniredis.Miniredis{local, given} {
		m.ClockTTL(true)
		t.Cleanup(func() { require.Empty(t, m.Keys(), "the demo leaves keys behind") })
	}

	for name, tt := range map[string]struct {
		usual     string
		args      []string
		firstLine string
	}{
		"embedded":      {noRedis, nil, "embedded: no Redis answers at " + noRedis},
		"usual address": {local.Addr(), nil, " at " + local.Addr()},
		"given address": {local.Addr(), []string{"-redis-addr", given.Addr()}, " at " + given.Addr()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := runWith(tt.usual, tt.args...)
			require.Zero(t, o.status, o.stderr)
			require.Empty(t, o.stderr)
			first, rest, _ := strings.Cut(o.stdout, "\n")
			require.Contains(t, first, tt.firstLine)
			require.Regexp(t, `(?m)^token bucket +ooooo\.\.\. `, rest)
			require.Regexp(t, `(?m)^leaky bucket +o\.\.\.\.\.\.\. `, rest)
			require.Regexp(t, `(?m)^fixed window +ooooo\.\.\. `, rest)
			require.Regexp(t, `(?m)^sliding window log +ooooo\.\.\. `, rest)
			require.Regexp(t, `(?m)^sliding window counter +ooooo\.\.\. `, rest)
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	o := runWith(noRedis, "-h")
	require.Zero(t, o.status)
	require.Contains(t, o.stdout, "usage: quickstart")
	require.Empty(t, o.stderr)
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })

	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"unknown flag":     {[]string{"-port", "6379"}, "-port"},
		"stray argument":   {[]string{"localhost:6379"}, `unexpected argument "localhost:6379"`},
		"no value":         {[]string{"-redis-addr"}, "needs an argument"},
		"empty address":    {[]string{"-redis-addr", ""}, "host:port"},
		"no port":          {[]string{"-redis-addr", "localhost"}, "host:port"},
		"no host":          {[]string{"-redis-addr", ":6379"}, "host:port"},
		"port in words":    {[]string{"-redis-addr", "localhost:redis"}, "1 to 65535"},
		"port too large":   {[]string{"-redis-addr", "localhost:65536"}, "1 to 65535"},
		"nothing listens":  {[]string{"-redis-addr", noRedis}, "no Redis at " + noRedis},
		"nothing answers":  {[]string{"-redis-addr", silent.Addr().String()}, "no Redis at " + silent.Addr().String()},
		"good, then stray": {[]string{"-redis-addr", noRedis, "now"}, `unexpected argument "now"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := runWith(noRedis, tt.args...)
			require.Equal(t, 2, o.status)
			require.Empty(t, o.stdout)
			require.Contains(t, o.stderr, tt.says)
			require.Equal(t, 1, strings.Count(o.stderr, "\n"), "lines in %q", o.stderr)
			require.Less(t, o.took, 3*time.Second)
		})
	}
}

func TestServerVersion(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\n":                              "Redis 7.0.15",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1": "Valkey 8.1.1",
		"redis_version:7.4.0\r\ndragonfly_version:df-v1.30.0\r\n":           "Dragonfly df-v1.30.0",
		"": "a Redis that does not tell its version",
	} {
		require.Equal(t, want, serverVersion(info))
	}
}
