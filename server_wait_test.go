package ratelimit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// eventually waits until check finds nothing wrong.
func eventually(tb testing.TB, within time.Duration, check func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	require.NoError(tb, poll(ctx, check))
}

// poll calls check until it finds nothing wrong or ctx ends.
func poll(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var wrong error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if wrong == nil || ctx.Err() == nil { // else it may say only that ctx has ended
			wrong = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), wrong)
		case <-tick.C:
		}
	}
}

// awaitPing waits until the server at addr answers, for as long as it has not ended.
func awaitPing(ctx context.Context, addr string, ended func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	return poll(ctx, func(ctx context.Context) error {
		err := ping(ctx, addr)
		if err != nil && ended() {
			giveUp(errors.New("it ended at once"))
		}
		return err
	})
}

func ping(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = fmt.Errorf("%s answers PING with %q", addr, line)
	}
	return err
}

// Ports come from below those that systems give to outgoing connections, so that nobody is given one
// between the look here and its use, or while its server is down.
const firstPort, portRange = 10000, 12000

var portSeed, portCount = rand.Uint32N(portRange), atomic.Uint32{}

// freePort is a port that nobody listens to, nor to the one 10000 above it, which a cluster node needs too.
func freePort() int {
	for range portRange {
		port := int(firstPort + (portSeed+portCount.Add(1))%portRange)
		if portFree(port) && portFree(port+10000) {
			return port
		}
	}
	panic("no free port")
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}
