package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A soakWatch takes samples, with a connection of its own.
type soakWatch struct {
	load     *soakLoad
	rdb      *redis.Client // the callers'
	watch    *redis.Client
	immortal int // the most keys without a TTL in any sample
}

// sample looks while no call is under way.
func (w *soakWatch) sample() (soakSample, error) {
	w.load.gate.Lock()
	defer w.load.gate.Unlock()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s := soakSample{
		At:         time.Since(w.load.began),
		Goroutines: runtime.NumGoroutine(),
		Pool:       int(w.rdb.PoolStats().TotalConns),
		Heap:       int(mem.HeapAlloc),
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info, err := w.watch.InfoMap(ctx, "clients", "memory", "keyspace").Result()
	if err != nil {
		return s, err
	}
	s.Clients, _ = strconv.Atoi(info["Clients"]["connected_clients"])
	s.Memory, _ = strconv.Atoi(info["Memory"]["used_memory"])
	if s.Clients == 0 || s.Memory == 0 {
		return s, fmt.Errorf("unexpected INFO: %v", info)
	}
	keys, mortal := 0, 0
	if text := info["Keyspace"]["db0"]; text != "" {
		if _, err := fmt.Sscanf(text, "keys=%d,expires=%d,", &keys, &mortal); err != nil {
			return s, fmt.Errorf("unexpected INFO: %q: %w", text, err)
		}
	}
	s.Keys = keys
	w.immortal = max(w.immortal, keys-mortal)
	return s, nil
}

// empty waits for the longest TTL, then for the server to remove the last keys.
func (w *soakWatch) empty() (soakSample, error) {
	time.Sleep(2 * w.load.Period)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var s soakSample
	return s, poll(ctx, func(context.Context) (err error) {
		s, err = w.sample()
		if err == nil && s.Keys > 0 {
			err = fmt.Errorf("%d keys are left after twice the period", s.Keys)
		}
		return err
	})
}

// soakCause is an error in a few words that are the same for all of its kind.
func soakCause(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case didNotRun(err):
		return "did not run"
	case strings.Contains(err.Error(), "EOF"), strings.Contains(err.Error(), "reset by peer"), strings.Contains(err.Error(), "broken pipe"):
		return "connection lost"
	}
	return err.Error()
}
