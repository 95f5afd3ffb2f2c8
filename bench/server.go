package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// guard runs a server and ends it when its own input closes: also when this
// program has gone without ending it.
const guard = `trap "" INT; "$0" "$@" & read -r _; kill -9 $!; wait`

const slots = 16384

// startNodes starts n servers on free ports, as one cluster if n is not 1.
func startNodes(ctx context.Context, n int) (addrs []string, stop func(), err error) {
	var stops []func()
	stopAll := func() {
		for _, stop := range stops {
			stop()
		}
	}
	defer func() {
		if err != nil {
			stopAll()
		}
	}()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		if binary, err = exec.LookPath("valkey-server"); err != nil {
			return nil, nil, errors.New("neither redis-server nor valkey-server is on PATH")
		}
	}
	var options []string
	if n > 1 {
		options = []string{"--cluster-enabled", "yes"}
	}
	for range n {
		addr, end, err := startServer(ctx, binary, options)
		if err != nil {
			return nil, nil, err
		}
		addrs, stops = append(addrs, addr), append(stops, end)
	}
	if n > 1 {
		err = join(ctx, addrs)
	}
	return addrs, stopAll, err
}

func startServer(ctx context.Context, binary string, options []string) (addr string, stop func(), err error) {
	for range 5 { // another program may take the port at the last moment
		if addr, stop, err = serve(ctx, binary, freePort(), options); err == nil || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	return addr, stop, err
}

func serve(ctx context.Context, binary, port string, options []string) (addr string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return "", nil, err
	}
	out, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	args := append([]string{"-c", guard, binary, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", ""}, options...)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", args...) // it ends by its input, and takes the server with it
	cmd.Stdout, cmd.Stderr = out, out
	var in io.WriteCloser
	if in, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, errors.Join(err, out.Close(), os.RemoveAll(dir))
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
		_ = out.Close()
		_ = os.RemoveAll(dir)
	}
	addr = net.JoinHostPort("127.0.0.1", port)
	err = poll(ctx, 10*time.Second, addr, func(ctx context.Context, rdb *redis.Client) error {
		config, err := rdb.ConfigGet(ctx, "dir").Result()
		if err == nil && config["dir"] != dir {
			err = errors.New("the address is in use by another server")
		}
		return err
	})
	if err != nil {
		said, _ := os.ReadFile(out.Name())
		stop()
		return "", nil, fmt.Errorf("%s: %w: %s", binary, err, bytes.TrimSpace(said))
	}
	return addr, stop, nil
}

// join makes a cluster of masters that do not know each other, and waits until
// all of them find it well: about 3 s.
func join(ctx context.Context, addrs []string) error {
	first, firstPort, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return err
	}
	for i, addr := range addrs {
		err := poll(ctx, 10*time.Second, addr, func(ctx context.Context, rdb *redis.Client) error {
			_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
				p.ClusterAddSlotsRange(ctx, i*slots/len(addrs), (i+1)*slots/len(addrs)-1)
				if i > 0 {
					p.ClusterMeet(ctx, first, firstPort)
				}
				return nil
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, addr := range addrs {
		err := poll(ctx, 30*time.Second, addr, func(ctx context.Context, rdb *redis.Client) error {
			info, err := rdb.ClusterInfo(ctx).Result()
			for _, line := range []string{"cluster_state:ok", "cluster_size:" + strconv.Itoa(len(addrs))} {
				if !strings.Contains(info, line+"\r\n") {
					err = errors.Join(err, errors.New("no "+line))
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
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

// freePort is below the ports that systems give to outgoing connections. Nor
// does anybody listen to the one 10000 above, which a cluster node needs too.
func freePort() string {
	for {
		port := 10_000 + rand.IntN(12_000) //nolint:gosec // any port will do
		if portFree(port) && portFree(port+10_000) {
			return strconv.Itoa(port)
		}
	}
}

func portFree(port int) bool {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}
