package ratelimit

import (
	"bytes"
	"net"
	"time"
)

// link is one connection through the proxy. The proxy's mutex guards all of it but the connections' use.
type link struct {
	client, server net.Conn
	closed         bool
	swallow        int // so many chunks of replies are still to be dropped
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.carriers.Go(func() { p.carry(&link{client: client}) })
	}
}

// carry connects a client to the target and passes on what they say until one of them leaves.
func (p *proxy) carry(l *link) {
	defer p.set(func() { p.drop(l) })
	target := p.open(l)
	if !p.pass(l) {
		return
	}
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		return
	}
	p.set(func() {
		l.server = server
		if l.closed {
			p.drop(l)
		}
	})
	p.carriers.Go(func() {
		defer p.set(func() { p.drop(l) })
		p.carryReplies(l)
	})
	p.carryRequests(l)
}

func (p *proxy) open(l *link) (target string) {
	p.set(func() {
		p.links[l] = true
		if p.closed {
			p.drop(l)
		}
		target = p.target
	})
	return target
}

// pass waits while the proxy is stalled and tells whether the link is still open.
func (p *proxy) pass(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.stalled && !l.closed {
		p.changed.Wait()
	}
	return !l.closed
}

func (p *proxy) carryRequests(l *link) {
	var seen []byte // the end of what was said before, where the text may begin
	buf := make([]byte, 32<<10)
	for {
		n, err := l.client.Read(buf)
		if err != nil || !p.pass(l) {
			return
		}
		seen = p.expect(l, append(seen, bytes.ToLower(buf[:n])...))
		if _, err := l.server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// expect notes whether the reply to this request is unwanted, and returns what the next chunk may complete.
func (p *proxy) expect(l *link, said []byte) (rest []byte) {
	p.set(func() {
		if len(p.unwanted) == 0 {
			return
		}
		if bytes.Contains(said, p.unwanted) {
			l.swallow++
			return
		}
		rest = said[max(0, len(said)-len(p.unwanted)+1):]
	})
	return rest
}

func (p *proxy) carryReplies(l *link) {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.server.Read(buf)
		if err != nil || !p.pass(l) {
			return
		}
		keep, cut, lag := p.judge(l)
		if cut {
			return
		}
		time.Sleep(lag)
		if !keep {
			continue
		}
		if !p.deliver(l, buf[:n]) {
			return
		}
	}
}

// judge decides what becomes of a reply.
func (p *proxy) judge(l *link) (keep, cut bool, lag time.Duration) {
	p.set(func() {
		keep, lag = !p.mute, p.lag
		if l.swallow > 0 {
			l.swallow--
			p.drops++
			keep, cut = false, p.cutAfter
		}
	})
	return keep, cut, lag
}
