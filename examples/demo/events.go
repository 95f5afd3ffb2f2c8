package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxViewers   = 64
	writeTimeout = 5 * time.Second
)

// A feed hands the newest brief state to all who watch. Who is too slow misses
// some, and never holds up the others.
type feed struct {
	viewers atomic.Int32

	mu     sync.Mutex
	number int
	event  []byte
	next   chan struct{} // closed when there is a newer one
}

func newFeed() *feed { return &feed{next: make(chan struct{})} }

func (f *feed) watched() bool { return f.viewers.Load() > 0 }

func (f *feed) publish(event []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	f.event = event
	close(f.next)
	f.next = make(chan struct{})
}

func (f *feed) newest() (number int, event []byte, next chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.number, f.event, f.next
}

// tell publishes a state ten times a second, while somebody watches.
func (d *demo) tell(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if d.feed.watched() {
				d.feed.publish(event(d.state(brief)))
			}
		}
	}
}

func event(s state) []byte { //nolint:gocritic // once in a tenth of a second
	var b bytes.Buffer
	b.WriteString("data: ")
	if err := json.NewEncoder(&b).Encode(s); err != nil { // ends with one newline
		return []byte(": " + err.Error() + "\n\n")
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// events streams states as server-sent events: a full one, then brief ones.
func (d *demo) events(w http.ResponseWriter, r *http.Request) {
	defer d.feed.viewers.Add(-1)
	if d.feed.viewers.Add(1) > maxViewers {
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%d pages are watching, which is the most", maxViewers))
		return
	}
	// The server's timeouts are for requests that end.
	stream := http.NewResponseController(w)
	if err := stream.SetReadDeadline(time.Time{}); err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")

	sent, _, next := d.feed.newest()
	newest := event(d.state(full))
	for {
		if stream.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
			return
		}
		if _, err := w.Write(newest); err != nil {
			return
		}
		if stream.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-d.ctx.Done():
			return
		case <-next:
		}
		var number int
		number, newest, next = d.feed.newest()
		if number-sent >= brief-5 { // too slow: bins are missing
			newest = event(d.state(full))
		}
		sent = number
	}
}
