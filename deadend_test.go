package ratelimit

import (
	"context"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// closedPort is an address where nobody listens: dialing it is refused at once.
func closedPort(tb testing.TB) string {
	tb.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort()))
}

// blackHole is an address that never answers a dial, as behind a firewall that drops packets: a listener
// whose queue is full. It costs 0.1 s.
func blackHole(tb testing.TB) string {
	tb.Helper()
	addr := listenWithoutQueue(tb)
	for range 1000 {
		ctx, cancel := context.WithTimeout(tb.Context(), 100*time.Millisecond)
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		cancel()
		if err != nil {
			return addr
		}
		tb.Cleanup(func() { _ = conn.Close() })
	}
	require.FailNow(tb, "the listener's queue takes every connection")
	return ""
}

// listenWithoutQueue makes the socket itself, as package net always gives it a long queue.
func listenWithoutQueue(tb testing.TB) string {
	tb.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(tb, err)
	syscall.CloseOnExec(fd)
	tb.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(tb, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(tb, syscall.Listen(fd, 0))
	addr, err := syscall.Getsockname(fd)
	require.NoError(tb, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.(*syscall.SockaddrInet4).Port))
}
