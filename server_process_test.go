package ratelimit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// serverProcess runs a server as a process on 127.0.0.1, in a directory of its own.
type serverProcess struct {
	binary string
	args   []string
	env    []string
	dir    string
	addr   string

	cmd    *exec.Cmd
	exited chan struct{}
	guard  *exec.Cmd
}

// serverBinary finds a server on PATH.
func serverBinary() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		path, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		return "", errors.New("neither redis-server nor valkey-server is on PATH")
	}
	return path, nil
}

func newProcess(port int, spec serverSpec) (*serverProcess, error) {
	binary, err := serverBinary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ratelimit-redis-")
	if err != nil {
		return nil, err
	}
	p := &serverProcess{binary: binary, dir: dir, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	p.args = append(serverArgs(strconv.Itoa(port), spec), "--bind", "127.0.0.1", "--dir", dir)
	if spec.preload != "" {
		p.env = append(os.Environ(), "LD_PRELOAD="+spec.preload)
	}
	if spec.sentinel != "" {
		conf := filepath.Join(dir, "sentinel.conf")
		p.args = append([]string{conf, "--sentinel"}, p.args...)
		err = os.WriteFile(conf, []byte(spec.sentinel), 0o600)
	}
	return p, err
}

func (p *serverProcess) start(ctx context.Context) error {
	out, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return err
	}
	defer out.Close()
	p.cmd = exec.Command(p.binary, p.args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = p.env, out, out
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.exited = make(chan struct{})
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	if p.guard, err = startGuard(p.cmd.Process.Pid, p.dir); err != nil {
		return err
	}
	if err := awaitPing(ctx, p.addr, p.ended); err != nil {
		said, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w: %s", p.binary, err, bytes.TrimSpace(said))
	}
	return nil
}

func (p *serverProcess) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// startGuard kills the server when this process has gone without doing so: after a panic or a test's timeout.
// It reads from a pipe that nobody writes to, and whose other end closes with this process.
func startGuard(pid int, dir string) (*exec.Cmd, error) {
	guard := exec.Command("sh", "-c", `trap "" INT; read -r _; kill -9 "$0"; rm -rf "$1"`, strconv.Itoa(pid), dir)
	if _, err := guard.StdinPipe(); err != nil {
		return nil, err
	}
	err := guard.Start()
	return guard, err
}

func (p *serverProcess) stop() error {
	if p.guard != nil {
		_ = p.guard.Process.Kill()
		_ = p.guard.Wait()
		p.guard = nil
	}
	if p.cmd == nil || p.cmd.Process == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

func (p *serverProcess) pause() error  { return p.signal("STOP") }
func (p *serverProcess) resume() error { return p.signal("CONT") }

// signal asks the shell, which knows the signals of every system that has them.
func (p *serverProcess) signal(name string) error {
	return exec.Command("sh", "-c", `kill -s "$0" "$1"`, name, strconv.Itoa(p.cmd.Process.Pid)).Run()
}

func (p *serverProcess) remove() error {
	return errors.Join(p.stop(), os.RemoveAll(p.dir))
}

func (p *serverProcess) dialAddr() string { return p.addr }
func (p *serverProcess) peerAddr() string { return p.addr }
