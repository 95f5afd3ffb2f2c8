package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

const (
	insidePort   = "6379"
	sentinelFile = "/sentinel.conf"
	preloadFile  = "/preload.so"
)

// containers is the network of all containers of a run.
var containers *serverNetwork

// serverContainer runs a server in a container of its own. Servers reach each other over the containers'
// network, tests reach them by a port of the Docker host; both addresses outlive a restart.
type serverContainer struct {
	docker *testcontainers.DockerContainer
	addr   string
	peer   string
}

func newContainer(ctx context.Context, port int, spec serverSpec) (*serverContainer, error) {
	ip := containers.newIP()
	opts := []testcontainers.ContainerCustomizer{
		testcontainers.WithNoStart(),
		testcontainers.WithExposedPorts(insidePort),
		containers.attach(ip, port),
	}
	args := serverArgs(insidePort, spec)
	if spec.sentinel == "" {
		opts = append(opts, testcontainers.WithCmd(args...)) // whatever the image's entrypoint, it knows options
	} else {
		file := testcontainers.ContainerFile{Reader: strings.NewReader(spec.sentinel), ContainerFilePath: sentinelFile, FileMode: 0o666}
		command := append([]string{spec.command, sentinelFile, "--sentinel"}, args...)
		opts = append(opts, testcontainers.WithFiles(file), testcontainers.WithEntrypoint(command...))
	}
	if spec.preload != "" {
		file := testcontainers.ContainerFile{HostFilePath: spec.preload, ContainerFilePath: preloadFile, FileMode: 0o755}
		opts = append(opts, testcontainers.WithFiles(file), testcontainers.WithEnv(map[string]string{"LD_PRELOAD": preloadFile}))
	}
	c, err := testcontainers.Run(ctx, serverImage(), opts...)
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(c))
	}
	s := &serverContainer{docker: c, peer: net.JoinHostPort(ip, insidePort)}
	host, err := c.Host(ctx)
	s.addr = net.JoinHostPort(host, strconv.Itoa(port))
	return s, err
}

func serverImage() string {
	if image := os.Getenv(imageEnv); image != "" {
		return image
	}
	return "redis:8-alpine"
}

func (c *serverContainer) start(ctx context.Context) error {
	if err := c.docker.Start(ctx); err != nil {
		return err
	}
	if err := awaitPing(ctx, c.addr, c.ended); err != nil {
		return fmt.Errorf("container of %s: %w: %s", serverImage(), err, c.logs())
	}
	return nil
}

func (c *serverContainer) ended() bool {
	state, err := c.docker.State(context.Background())
	return err == nil && !state.Running
}

func (c *serverContainer) logs() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r, err := c.docker.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	said, _ := io.ReadAll(r)
	return strings.TrimSpace(string(said))
}

func (c *serverContainer) stop() error {
	state, err := c.docker.State(context.Background())
	if err != nil || !state.Running {
		return err
	}
	if state.Paused { // Docker does not kill these
		if err := c.resume(); err != nil {
			return err
		}
	}
	return callDocker((*testcontainers.DockerClient).ContainerKill, c.docker.GetContainerID(), nil)
}

func (c *serverContainer) pause() error {
	return callDocker((*testcontainers.DockerClient).ContainerPause, c.docker.GetContainerID(), nil)
}

func (c *serverContainer) resume() error {
	return callDocker((*testcontainers.DockerClient).ContainerUnpause, c.docker.GetContainerID(), nil)
}

func (c *serverContainer) remove() error {
	return errors.Join(c.stop(), testcontainers.TerminateContainer(c.docker, testcontainers.StopTimeout(0)))
}

func (c *serverContainer) dialAddr() string { return c.addr }
func (c *serverContainer) peerAddr() string { return c.peer }
