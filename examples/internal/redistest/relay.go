package redistest

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Relay stands between a program and Redis, so that a test can take Redis away.
type Relay struct {
	Addr string

	tb       testing.TB
	to       string
	mu       sync.Mutex
	listener net.Listener // nil if cut
	frozen   bool
	conns    []net.Conn
}

// NewRelay passes on what it gets to Redis at addr, until the test ends.
func NewRelay(tb testing.TB, addr string) *Relay {
	tb.Helper()
	r := &Relay{Addr: "127.0.0.1:0", tb: tb, to: addr}
	r.Mend()
	tb.Cleanup(r.Cut)
	return r
}

// Cut closes all connections, and refuses new ones.
func (r *Relay) Cut() { r.end(false) }

// Freeze closes all connections, and leaves new ones without an answer.
func (r *Relay) Freeze() { r.end(true) }

func (r *Relay) end(frozen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns, r.frozen = nil, frozen
	if !frozen && r.listener != nil {
		_ = r.listener.Close()
		r.listener = nil
	}
}

// Mend undoes Cut and Freeze.
func (r *Relay) Mend() {
	r.tb.Helper()
	r.end(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = false
	if r.listener != nil {
		return
	}
	l, err := net.Listen("tcp", r.Addr)
	require.NoError(r.tb, err)
	r.listener, r.Addr = l, l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.connect(c)
		}
	}()
}

func (r *Relay) connect(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
	if r.frozen {
		return
	}
	server, err := net.Dial("tcp", r.to)
	if err != nil {
		_ = c.Close()
		return
	}
	r.conns = append(r.conns, server)
	for _, pair := range [][2]net.Conn{{c, server}, {server, c}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
		}()
	}
}
