package ratelimit

import (
	"math/rand/v2"
	"net"
)

// A harm is what the proxy does to a connection when a reply has come for it: the server has done its
// work, and the client can't know.
type harm int

const (
	noHarm   harm = iota
	reset         // the reply is lost and the connection reset
	halfCut       // half of the reply, then the connection is closed
	halfMute      // half of the reply, then nothing more
)

// harmReplies harms a share of the replies, those to a client's first words on a connection too.
func (p *proxy) harmReplies(h harm, share float64) { p.set(func() { p.harm, p.share = h, share }) }

// harmed counts the replies that harmReplies spoiled.
func (p *proxy) harmed() (n int) {
	p.set(func() { n = p.harmings })
	return n
}

// deliver passes a reply on and tells whether the link goes on.
func (p *proxy) deliver(l *link, reply []byte) bool {
	h := p.fate()
	switch h {
	case reset:
		return resetConn(l.client) // which the link's end closes
	case halfCut, halfMute:
		reply = reply[:len(reply)/2]
	case noHarm:
	}
	_, err := l.client.Write(reply)
	if h == halfMute {
		p.awaitEnd(l)
	}
	return err == nil && h == noHarm
}

func (p *proxy) fate() (h harm) {
	p.set(func() {
		if p.harm != noHarm && rand.Float64() < p.share {
			h = p.harm
			p.harmings++
		}
	})
	return h
}

// resetConn lets the connection's Close drop it without a farewell. It is false, as the link ends then.
func resetConn(conn net.Conn) bool {
	_ = conn.(*net.TCPConn).SetLinger(0)
	return false
}

// awaitEnd waits until somebody ends the link.
func (p *proxy) awaitEnd(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !l.closed {
		p.changed.Wait()
	}
}
