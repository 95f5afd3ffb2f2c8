package proof

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
)

// startProcess starts a server that listens to a socket in a directory of its own.
func startProcess() (options *redis.Options, remove func(), err error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		binary, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		return nil, nil, errors.New("neither redis-server nor valkey-server is on PATH")
	}
	dir, err := os.MkdirTemp("", "proof-")
	if err != nil {
		return nil, nil, err
	}
	socket := filepath.Join(dir, "redis.sock")
	server := exec.Command(binary, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "")
	if err := server.Start(); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	// The guard kills the server when this process has gone without doing so, as after a panic: it reads from a
	// pipe whose other end closes with this process.
	guard := exec.Command("sh", "-c", `trap "" INT; read -r _; kill -9 "$0"; rm -rf "$1"`, strconv.Itoa(server.Process.Pid), dir)
	remove = func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if guard.Process != nil {
			_ = guard.Process.Kill()
			_ = guard.Wait()
		}
		_ = os.RemoveAll(dir)
	}
	_, err = guard.StdinPipe()
	if err = errors.Join(err, guard.Start()); err != nil {
		remove()
		return nil, nil, err
	}
	return &redis.Options{Network: "unix", Addr: socket}, remove, nil
}

// startContainer takes about 1 s, and longer when it has to pull the image.
func startContainer() (options *redis.Options, remove func(), err error) {
	log.SetDefault(log.NewNoopLogger())
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c, err := testcontainers.Run(ctx, cmp.Or(os.Getenv(imageEnv), "redis:8-alpine"),
		testcontainers.WithExposedPorts("6379/tcp"),
		testcontainers.WithCmd("--save", "", "--protected-mode", "no"),
		testcontainers.WithWaitStrategy(wait.ForLog("Ready to accept connections")),
	)
	remove = func() { _ = testcontainers.TerminateContainer(c, testcontainers.StopTimeout(0)) }
	var addr string
	if err == nil {
		addr, err = c.PortEndpoint(ctx, "6379/tcp", "")
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return &redis.Options{Addr: addr}, remove, nil
}
