package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{})
	os.Exit(m.Run())
}

// A redisProcess is a Redis that a test can stop and start again.
type redisProcess struct {
	addr string
	path string
	cmd  *exec.Cmd
}

func startRedis(t *testing.T) *redisProcess {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	require.NoError(t, err, "this test starts and stops a Redis of its own: install redis-server (Debian: apt-get install redis-server)")
	p := &redisProcess{addr: freeAddr(t), path: path}
	t.Cleanup(func() { p.stop(t) })
	p.start(t)
	return p
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (p *redisProcess) start(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(p.addr)
	require.NoError(t, err)
	p.cmd = exec.Command(p.path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", os.TempDir())
	require.NoError(t, p.cmd.Start())
	rdb := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	eventually(t, func() bool { return rdb.Ping(t.Context()).Err() == nil }, "redis-server does not answer")
}

func (p *redisProcess) stop(t *testing.T) {
	t.Helper()
	if p.cmd == nil {
		return
	}
	require.NoError(t, p.cmd.Process.Kill())
	p.cmd.Wait() //nolint:errcheck,gosec // it was killed
	p.cmd = nil
}

// redisAddr is the Redis for tests that only use it.
func redisAddr(t *testing.T) string {
	t.Helper()
	if addr := os.Getenv("RATELIMIT_REDIS_ADDR"); addr != "" {
		return addr
	}
	return startRedis(t).addr
}

// A running is the program, as main runs it.
type running struct {
	t   *testing.T
	url string
	key string // nobody else's

	cancel context.CancelFunc
	status chan int
	stderr *bytes.Buffer
	once   sync.Once
}

// startDemo runs the program on a free port; "" as the address of Redis leaves
// it to find one, at usual or embedded.
func startDemo(t *testing.T, addr, usual string) *running {
	t.Helper()
	args := []string{"-port", "0"}
	if addr != "" {
		args = append(args, "-redis-url", "redis://"+addr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, cancel: cancel, status: make(chan int, 1), stderr: &bytes.Buffer{}}
	out, in := io.Pipe()
	go func() {
		status := run(ctx, args, usual, in, r.stderr)
		in.Close()
		r.status <- status
	}()
	t.Cleanup(r.stop)

	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the demo did not start")
	r.url, _, _ = strings.Cut(line, " ")
	r.key = "test:" + strconv.FormatInt(time.Now().UnixNano(), 36)
	r.post("/config", map[string]any{"key": r.key}, http.StatusOK, nil)
	return r
}

// stop ends the program as a signal does, and holds it to a clean end.
func (r *running) stop() {
	r.t.Helper()
	r.once.Do(func() {
		http.DefaultClient.CloseIdleConnections()
		r.cancel()
		select {
		case status := <-r.status:
			require.Zero(r.t, status, r.stderr)
		case <-time.After(10 * time.Second):
			require.FailNow(r.t, "the demo does not end")
		}
	})
}

// post sends body as JSON, expects the status and reads the answer into v.
func (r *running) post(path string, body any, status int, v any) {
	r.t.Helper()
	text, isText := body.(string)
	if !isText {
		b, err := json.Marshal(body)
		require.NoError(r.t, err)
		text = string(b)
	}
	response, err := http.Post(r.url+path, "application/json", strings.NewReader(text))
	require.NoError(r.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	require.Equal(r.t, status, response.StatusCode, "%s %s: %s", path, text, answer)
	if v != nil {
		require.NoError(r.t, json.Unmarshal(answer, v), string(answer))
	}
}

func (r *running) state() state {
	r.t.Helper()
	response, err := http.Get(r.url + "/state")
	require.NoError(r.t, err)
	defer response.Body.Close()
	require.Equal(r.t, http.StatusOK, response.StatusCode)
	var s state
	require.NoError(r.t, json.NewDecoder(response.Body).Decode(&s))
	return s
}

func (r *running) panel(a ratelimit.Algorithm) *panelView {
	r.t.Helper()
	for _, p := range r.state().Panels {
		if p.Algorithm == a {
			return p
		}
	}
	require.FailNow(r.t, "no such panel", a)
	return nil
}

func eventually(t *testing.T, condition func() bool, says string) {
	t.Helper()
	for began := time.Now(); !condition(); time.Sleep(20 * time.Millisecond) {
		require.Less(t, time.Since(began), 15*time.Second, says)
	}
}
