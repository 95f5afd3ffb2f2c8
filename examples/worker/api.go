package main

import (
	"net/http"
	"sync"
	"time"
)

// A thirdParty is somebody else's API, which refuses whoever calls it more than
// quota times in any second.
type thirdParty struct {
	mu      sync.Mutex
	served  []time.Time // oldest first
	refused int
}

func (t *thirdParty) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if n := len(t.served); n >= quota && now.Sub(t.served[n-quota]) < time.Second {
		t.refused++
		http.Error(w, "over quota", http.StatusTooManyRequests)
		return
	}
	t.served = append(t.served, now)
	w.WriteHeader(http.StatusNoContent)
}

func (t *thirdParty) counts() (served, refused int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.served), t.refused
}
