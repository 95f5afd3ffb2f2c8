package ratelimit

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lender is a Memory that keeps a list of what it was asked and has granted, and
// does something before and after each of its calls.
type lender struct {
	*Memory
	before, after func()

	mu     sync.Mutex
	asks   []int
	grants []grant
}

// A grant is units that were taken.
type grant struct {
	at     time.Time
	units  int
	result Result
}

func lend(t *testing.T, a Algorithm, limits Limits) *lender {
	t.Helper()
	return &lender{Memory: newMemory(t, a, limits)}
}

func (l *lender) ask(n int, f func() (int, Result, error)) (int, Result, error) {
	if l.before != nil {
		l.before()
	}
	granted, r, err := f()
	l.mu.Lock()
	l.asks = append(l.asks, n)
	if granted > 0 {
		l.grants = append(l.grants, grant{time.Now(), granted, r})
	}
	l.mu.Unlock()
	if l.after != nil {
		l.after()
	}
	return granted, r, err
}

func (l *lender) Allow(ctx context.Context, key string) (Result, error) {
	return l.AllowN(ctx, key, 1)
}

func (l *lender) AllowN(ctx context.Context, key string, n int) (Result, error) {
	_, r, err := l.ask(n, func() (int, Result, error) {
		r, err := l.Memory.AllowN(ctx, key, n)
		if !r.Allowed {
			return 0, r, err
		}
		return n, r, err
	})
	return r, err
}

func (l *lender) AllowUpTo(ctx context.Context, key string, n int) (int, Result, error) {
	return l.ask(n, func() (int, Result, error) { return l.Memory.AllowUpTo(ctx, key, n) })
}

// asked is what was asked since it was asked last.
func (l *lender) asked() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	asks := l.asks
	l.asks = nil
	return asks
}

func (l *lender) granted() (units int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.grants {
		units += g.units
	}
	return units
}

// allow asks for n units of "key" and tells what came of it.
func allow(t *testing.T, l Limiter, n int) Result {
	t.Helper()
	r, err := l.AllowN(t.Context(), "key", n)
	require.NoError(t, err)
	require.Equal(t, r.Allowed, r.RetryAfter == 0)
	return r
}

func must(r Result, err error) Result {
	if err != nil {
		panic(err)
	}
	return r
}
