package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startProcess starts a server on a free port, with more options for its
// command line. It takes about 0.1 s.
func startProcess(tb testing.TB) (string, error) { tb.Helper(); return startServer(tb) }

func startServer(tb testing.TB, options ...string) (addr string, err error) {
	tb.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		binary, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		return "", errors.New("neither redis-server nor valkey-server is on PATH")
	}
	for range 5 { // another program may take the port at the last moment
		if addr, err = serve(tb, binary, freePort(), options); err == nil || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	return addr, err
}

// serve runs a server on port until the test ends.
func serve(tb testing.TB, binary, port string, options []string) (addr string, err error) {
	tb.Helper()
	dir := tb.TempDir()
	out, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", err
	}
	defer out.Close()
	cmd := exec.Command(binary, append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", ""}, options...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(tb.Context())
	go func() {
		_ = cmd.Wait()
		cancel() // nobody waits for a server that has ended
	}()
	guard, err := startGuard(cmd.Process.Pid)
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ctx.Done()
		if guard != nil {
			_ = guard.Process.Kill()
			_ = guard.Wait()
		}
	})
	if err != nil {
		return "", err
	}
	addr = net.JoinHostPort("127.0.0.1", port)
	err = poll(ctx, 10*time.Second, addr, func(ctx context.Context, rdb *redis.Client) error {
		info, err := rdb.InfoMap(ctx, "server").Result()
		if pid := info["Server"]["process_id"]; err == nil && pid != strconv.Itoa(cmd.Process.Pid) {
			err = errors.New("the address is in use by process " + pid)
		}
		return err
	})
	if err != nil {
		said, _ := os.ReadFile(out.Name())
		err = fmt.Errorf("%s: %w: %s", binary, err, bytes.TrimSpace(said))
	}
	return addr, err
}

// startGuard kills the server when this process has gone without doing so, as
// after a panic: it reads from a pipe whose other end closes with this process.
func startGuard(pid int) (*exec.Cmd, error) {
	guard := exec.Command("sh", "-c", `trap "" INT; read -r _; kill -9 "$0"`, strconv.Itoa(pid))
	if _, err := guard.StdinPipe(); err != nil {
		return nil, err
	}
	err := guard.Start()
	return guard, err
}

// poll asks the server at addr until it finds nothing wrong or time is up.
func poll(ctx context.Context, within time.Duration, addr string, ask func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Second})
	defer rdb.Close()
	for {
		err := ask(ctx, rdb)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", addr, ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freePort is below the ports that systems give to outgoing connections, so that
// nobody is given it meanwhile. Nor does anybody listen to the one 10000 above,
// which a cluster node needs too.
func freePort() string {
	for {
		port := 10_000 + rand.IntN(12_000)
		if portFree(port) && portFree(port+10_000) {
			return strconv.Itoa(port)
		}
	}
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}
