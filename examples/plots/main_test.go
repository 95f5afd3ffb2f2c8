package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

const published = "../../docs/img"

// What is published is what the program draws, byte for byte; the memory of a
// key, though, differs between servers.
func TestPictures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"-out", dir, "-redis-addr", redistest.Addr(t, "plots")}, &stdout, &stderr), stderr.String())
	require.Empty(t, stderr.String())

	names := []string{"memory.svg"}
	for _, p := range timed() {
		names = append(names, p.name)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		require.Contains(t, stdout.String(), path+"\n")
		drawn, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Less(t, len(drawn), 60_000, name)
		requireSVG(t, drawn)
		was, err := os.ReadFile(filepath.Join(published, name))
		require.NoError(t, err)
		if name != "memory.svg" {
			require.True(t, bytes.Equal(was, drawn), "%s differs from the one in docs/img: draw them again with go run ./plots", name)
		}
	}

	found, err := filepath.Glob(published + "/*.svg")
	require.NoError(t, err)
	for _, path := range found {
		require.Contains(t, names, filepath.Base(path), "nothing draws this any more")
	}
}

func requireSVG(t *testing.T, text []byte) {
	t.Helper()
	elements := map[string]int{}
	for decoder := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	require.Equal(t, 1, elements["svg"])
	require.Greater(t, elements["path"], 10)
	require.Greater(t, elements["text"], 5)
}

// The picture of the boundary shows what the page says of it.
func TestBoundary(t *testing.T) {
	t.Parallel()
	records, err := play(spike, kinds...)
	require.NoError(t, err)
	got := map[ratelimit.Algorithm]int{}
	for _, r := range records {
		for _, l := range r.within(10 * time.Second) {
			got[r.algorithm] = max(got[r.algorithm], l.remaining)
		}
	}
	require.Equal(t, map[ratelimit.Algorithm]int{
		ratelimit.TokenBucket:          23,
		ratelimit.LeakyBucket:          4,
		ratelimit.FixedWindow:          39,
		ratelimit.SlidingWindowLog:     20,
		ratelimit.SlidingWindowCounter: 21,
	}, got)
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"unknown flag":    {[]string{"-o", "."}, "-o"},
		"stray argument":  {[]string{"."}, `unexpected argument "."`},
		"no such place":   {[]string{"-out", file + "s"}, file + "s"},
		"not a directory": {[]string{"-out", file}, "not a directory"},
		"bad address":     {[]string{"-out", ".", "-redis-addr", "localhost"}, "host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, 2, run(tt.args, &stdout, &stderr))
			require.Empty(t, stdout.String())
			require.Contains(t, stderr.String(), tt.says)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"-h"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "usage: plots")
	require.Empty(t, stderr.String())
}

// Without a Redis all but one picture are drawn, and the program says so.
func TestNoRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run([]string{"-out", t.TempDir()}, &stdout, &stderr))
	require.Equal(t, len(timed()), strings.Count(stdout.String(), "\n"))
	require.Contains(t, stderr.String(), "memory.svg was not made: it needs a real Redis")
}
