package main

import (
	"bytes"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

// noRedis is an address where nothing listens.
const noRedis = "127.0.0.1:1"

func TestSpike(t *testing.T) {
	for name, args := range map[string][]string{
		"real Redis": {"-redis-addr", redistest.Addr(t, "loadtest")},
		"embedded":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			start := time.Now()
			require.Zero(t, run(args, noRedis, &stdout, &stderr), stderr.String())
			require.Less(t, time.Since(start), 15*time.Second)
			require.Empty(t, stderr.String())
			t.Log(stdout.String())

			most := map[string]int{}
			for _, row := range regexp.MustCompile(`(?m)^(\w[a-z ]+?) {2}.* (\d+) {2}█+$`).FindAllStringSubmatch(stdout.String(), -1) {
				var err error
				most[row[1]], err = strconv.Atoi(row[2])
				require.NoError(t, err)
			}
			require.Len(t, most, 5)
			require.Greater(t, most["fixed window"], limit.Rate)
			require.LessOrEqual(t, most["fixed window"], 2*limit.Rate)
			require.LessOrEqual(t, most["sliding window log"], limit.Rate)
			require.Positive(t, most["sliding window log"])
		})
	}
}

func TestMostWithin(t *testing.T) {
	t.Parallel()
	var admitted []*vegeta.Result
	for _, ms := range []int{0, 500, 980, 995, 1000, 1400} {
		admitted = append(admitted, &vegeta.Result{
			Timestamp: time.UnixMilli(int64(ms)),
			Latency:   10 * time.Millisecond,
		})
	}
	require.Equal(t, 5, mostWithin(time.Second, admitted), "those from 500 ms to 1400 ms")
	require.Equal(t, 3, mostWithin(time.Second, admitted[:4]), "the one at 995 ms may have been decided after 1000 ms")
	require.Zero(t, mostWithin(time.Second, nil))
}

func TestUsage(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"-h"}, noRedis, &stdout, &stderr))
	require.Contains(t, stdout.String(), "usage: loadtest")
	require.Empty(t, stderr.String())
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })

	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"unknown flag":    {[]string{"-rate", "9000"}, "-rate"},
		"stray argument":  {[]string{"localhost:6379"}, `unexpected argument "localhost:6379"`},
		"no value":        {[]string{"-redis-addr"}, "needs an argument"},
		"no port":         {[]string{"-redis-addr", "localhost"}, "host:port"},
		"no host":         {[]string{"-redis-addr", ":6379"}, "host:port"},
		"port too large":  {[]string{"-redis-addr", "localhost:65536"}, "host:port"},
		"nothing listens": {[]string{"-redis-addr", noRedis}, "no Redis at " + noRedis},
		"nothing answers": {[]string{"-redis-addr", silent.Addr().String()}, "no Redis at " + silent.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			start := time.Now()
			require.Equal(t, 2, run(tt.args, noRedis, &stdout, &stderr))
			require.Less(t, time.Since(start), 5*time.Second)
			require.Empty(t, stdout.String())
			require.Contains(t, stderr.String(), tt.says)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
		})
	}
}
