package ratelimit

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy stands between a client and a server and does what a bad network does.
type proxy struct {
	listener net.Listener
	carriers sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond // stalled, or a link's closed
	target  string
	links   map[*link]bool
	closed  bool

	stalled  bool
	mute     bool
	lag      time.Duration
	unwanted []byte // the reply to a request with this text is dropped
	cutAfter bool
	drops    int

	harm     harm
	share    float64 // of the replies that are harmed
	harmings int
}

// startProxy starts a proxy on 127.0.0.1 that passes everything on to target, until it is told otherwise.
func startProxy(tb testing.TB, target string) *proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	p := &proxy{listener: listener, target: target, links: map[*link]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.carriers.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr is where clients dial.
func (p *proxy) Addr() string { return p.listener.Addr().String() }

// setTarget cuts all connections and leads new ones elsewhere.
func (p *proxy) setTarget(addr string) {
	p.set(func() { p.target = addr })
	p.cut()
}

// stall holds back everything in both directions, as a frozen server does: what was held back goes on
// when the stall ends.
func (p *proxy) stall(on bool) { p.set(func() { p.stalled = on }) }

// dropReplies lets requests reach the server and throws its replies away.
func (p *proxy) dropReplies(on bool) { p.set(func() { p.mute = on }) }

// dropReplyTo throws away the reply to every request that contains the text, in any case; with cutAfter
// the connection is cut then. A text of "" ends it. It takes a chunk of bytes for a reply, which holds
// for short replies to requests sent one at a time, as those of a limiter are.
func (p *proxy) dropReplyTo(text string, cutAfter bool) {
	p.set(func() { p.unwanted, p.cutAfter = bytes.ToLower([]byte(text)), cutAfter })
}

// dropped counts the replies that dropReplyTo threw away.
func (p *proxy) dropped() (n int) {
	p.set(func() { n = p.drops })
	return n
}

// delay makes every reply come later by d.
func (p *proxy) delay(d time.Duration) { p.set(func() { p.lag = d }) }

// cut closes all connections that are open now.
func (p *proxy) cut() {
	p.set(func() {
		for l := range p.links {
			p.drop(l)
		}
	})
}

func (p *proxy) close() {
	p.set(func() { p.closed = true })
	_ = p.listener.Close()
	p.cut()
	p.carriers.Wait()
}

// set changes the proxy's state and wakes those who wait for a change.
func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// drop ends a link; the caller holds the mutex.
func (p *proxy) drop(l *link) {
	l.closed = true
	delete(p.links, l)
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}
