package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"
)

// programEnv is set where a test's binary is to be the program that it tests.
const programEnv = "RATELIMIT_EXAMPLE"

// Main is for the TestMain of an example, so that its test can run it as a
// process, with its flags, signals and exit status:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Main(m, main)) }
func Main(m *testing.M, main func()) int {
	if os.Getenv(programEnv) == "" {
		redis.SetLogger(&logging.VoidLogger{}) // it tells of every dial that fails
		return m.Run()
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) //nolint:revive // the test has gone: so must the program
	}()
	main()
	return 0
}

// command is the program of the test.
func command(ctx context.Context, tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	// With the race detector a program would take a second longer to end.
	cmd.Env = append(os.Environ(), programEnv+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	_, err := cmd.StdinPipe()
	require.NoError(tb, err)
	return cmd
}

// Run runs the program to its end.
func Run(tb testing.TB, args ...string) (status int, stdout, stderr string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	cmd := command(ctx, tb, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); !errors.As(err, new(*exec.ExitError)) {
		require.NoError(tb, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// BadFlags requires that the program refuses bad flags, those that examples have
// in common and more, in one line and with exit status 2, and that it explains
// its flags when it is asked. redisFlag is the one that says where Redis is.
func BadFlags(tb testing.TB, redisFlag string, more ...[]string) {
	tb.Helper()
	for _, args := range append(more,
		[]string{"-no-such-flag"}, []string{"stray"}, []string{redisFlag}, []string{redisFlag, ""}, []string{redisFlag, "localhost"},
	) {
		status, stdout, stderr := Run(tb, args...)
		require.Equal(tb, 2, status, "%q: %s", args, stderr)
		require.Empty(tb, stdout)
		require.Equal(tb, 1, strings.Count(stderr, "\n"), stderr)
	}
	status, stdout, stderr := Run(tb, "-h")
	require.Zero(tb, status)
	require.Contains(tb, stdout, redisFlag)
	require.Empty(tb, stderr)
}

// A Program is a server that runs.
type Program struct {
	Addr string // where it listens

	tb     testing.TB
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}
	err    error // when it has ended
}

// Start starts the program as a server, on a free port, and waits until it
// listens. When the test ends it is killed, if Stop has not ended it.
func Start(tb testing.TB, args ...string) *Program {
	tb.Helper()
	p := &Program{tb: tb, ended: make(chan struct{})}
	p.cmd = command(context.WithoutCancel(tb.Context()), tb, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	p.cmd.Stderr = &p.stderr
	out, in := io.Pipe()
	p.cmd.Stdout = in
	require.NoError(tb, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
		_ = in.Close()
	}()
	tb.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		<-p.ended
		require.NoError(tb, err, "it ended: %s", p.stderr.String())
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	p.Addr = strings.TrimPrefix(line[strings.LastIndexByte(line, ' ')+1:len(line)-1], "http://")
	return p
}

// Stop requires that the program ends well, and soon, when it is asked to by a
// SIGTERM.
func (p *Program) Stop() {
	p.tb.Helper()
	require.NoError(p.tb, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
		require.NoError(p.tb, p.err, p.stderr.String())
	case <-time.After(5 * time.Second):
		require.FailNow(p.tb, "it does not end")
	}
	_, err := net.Dial("tcp", p.Addr)
	require.Error(p.tb, err, "somebody listens still")
}
