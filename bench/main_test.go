package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"
)

// The relay is this program: so must the test be.
func TestMain(m *testing.M) {
	if os.Getenv(relayEnv) != "" {
		main()
		return
	}
	redis.SetLogger(&logging.VoidLogger{})
	os.Exit(m.Run())
}

// The quick run measures every subject at every site, and writes a page and
// pictures that are well formed. What the figures are is the machine's matter.
func TestQuick(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-quick", "-out", dir}, &stdout, &stderr), stderr.String())

	text, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	require.NoError(t, err)
	page := string(text)
	require.NotContains(t, page, "NaN")
	require.NotContains(t, page, "Inf")
	require.NotContains(t, page, "%!")
	require.NotContains(t, page, "refusals")
	require.NotContains(t, page, os.TempDir(), "it must not tell where it was made")
	requireTables(t, page)

	for _, site := range []string{"Standalone", "Standalone, 1ms of network delay", "Cluster of 3", "Cluster of 3, 1ms of network delay"} {
		section := sectionOf(t, page, site)
		for _, sub := range subjects {
			rows := regexp.MustCompile(`(?m)^\| `+regexp.QuoteMeta(sub.name)+` .*$`).FindAllString(section, -1)
			if sub.name == "httprate-redis" && strings.HasPrefix(site, "Cluster") {
				require.Empty(t, rows)
				continue
			}
			tables := 6
			if sub.floor() {
				tables-- // none is measured over PING
			}
			require.Len(t, rows, tables, "%s in %s", sub.name, site)
			for _, row := range rows {
				require.NotContains(t, row, "–", "%s in %s has not been measured", sub.name, site)
				require.NotRegexp(t, `\| +0\.00 \|`, row, "%s in %s", sub.name, site)
			}
		}
	}
	for heading, among := range map[string]func(subject) bool{
		"Memory":                func(s subject) bool { return !s.floor() },
		"By the number of keys": func(s subject) bool { return s.grows },
		"By the limit":          func(s subject) bool { return s.grows && !s.floor() },
	} {
		section := sectionOf(t, page, heading)
		for _, sub := range subjects {
			require.Equal(t, among(sub), strings.Contains(section, "| "+sub.name+" "), "%s in %s", sub.name, heading)
		}
	}
	sectionOf(t, page, "At a glance")
	require.Regexp(t, `\*\*rueidislimiter\*\* over|Nowhere`, sectionOf(t, page, "Where a peer is better"))

	for _, name := range []string{"throughput", "p99", "cpu", "keys", "limit"} {
		file := "img/bench/" + name + ".svg"
		require.Contains(t, page, "]("+file+")")
		drawn, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Less(t, len(drawn), 60_000, name)
		requireSVG(t, drawn)
	}
}

// sectionOf is what is under a heading, up to the next.
func sectionOf(t *testing.T, page, heading string) string {
	t.Helper()
	_, section, found := strings.Cut(page, "\n## "+heading+"\n")
	require.True(t, found, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// requireTables requires that each row of a table has as many fields as its head.
func requireTables(t *testing.T, page string) {
	t.Helper()
	fields, tables := 0, 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			fields = 0
			continue
		}
		if fields == 0 {
			fields, tables = strings.Count(line, "|"), tables+1
		}
		require.Equal(t, fields, strings.Count(line, "|"), line)
	}
	require.Greater(t, tables, 20)
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

func TestBadInput(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"unknown flag":    {[]string{"-o", "."}, "-o"},
		"stray argument":  {[]string{"-out", ".", "token-bucket"}, `unexpected argument "token-bucket"`},
		"no such subject": {[]string{"-only", "token-bucket,gcra"}, `no subject "gcra"`},
		"no rounds":       {[]string{"-out", ".", "-rounds", "0"}, "-rounds"},
		"falling callers": {[]string{"-callers", "4,1"}, "rising"},
		"no callers":      {[]string{"-callers", ","}, "-callers"},
		"too many keys":   {[]string{"-out", ".", "-keys", "1e9"}, "-keys"},
		"no such place":   {[]string{"-out", file + "s"}, file + "s"},
		"not a directory": {[]string{"-out", file}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, 2, run(t.Context(), tt.args, &stdout, &stderr))
			require.Empty(t, stdout.String())
			require.Contains(t, stderr.String(), tt.says)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-h"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "usage: bench")
	require.Empty(t, stderr.String())
}

func TestNoServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-quick", "-out", t.TempDir()}, &stdout, &stderr))
	require.Empty(t, stdout.String())
	require.Contains(t, stderr.String(), "neither redis-server nor valkey-server is on PATH")
}
