package ratelimit

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Memory is a Limiter in the memory of one process: for a single instance, for
// tests, and to fall back on. It decides as Redis does with the same algorithm
// and limits, by the process's monotonic clock. It starts no goroutine and
// needs no closing.
//
// It keeps at most a set number of keys. When a new key needs the room, keys go
// whose state no longer counts; only if there are none, the one whose state
// would stop counting first is forgotten.
type Memory struct {
	algorithm Algorithm
	limits    Limits
	maxKeys   int
	began     time.Time

	mu       sync.Mutex
	keys     map[string]*memoryKey
	queue    expiryQueue
	reserved reservations
}

// A memoryKey is what Memory keeps for a key.
type memoryKey struct {
	key     string
	state   twin
	expires int64 // ms, as a key in Redis expires: it counts until this has passed
	index   int   // in the queue, -1 if it is not kept
}

// DefaultMaxKeys is how many keys a Memory keeps unless WithMaxKeys says else.
const DefaultMaxKeys = 1_000_000

// A MemoryOption changes what NewMemory makes.
type MemoryOption func(*memoryOptions)

type memoryOptions struct{ maxKeys int }

// WithMaxKeys sets how many keys are kept: at least 1, DefaultMaxKeys if not
// set. A key takes about 250 bytes beside its own text; in a sliding window log
// 8 to 32 more for each unit that counts.
func WithMaxKeys(n int) MemoryOption {
	return func(o *memoryOptions) { o.maxKeys = n }
}

// NewMemory makes a Limiter that keeps its state in process. The error is
// ErrInvalidLimit for a static Limit out of bounds, or says what is wrong with
// the algorithm or an option.
func NewMemory(algorithm Algorithm, limits Limits, options ...MemoryOption) (*Memory, error) {
	o := memoryOptions{maxKeys: DefaultMaxKeys}
	for _, option := range options {
		if option != nil {
			option(&o)
		}
	}
	if err := cmp.Or(algorithm.check(), o.check(), checkLimits(algorithm, limits)); err != nil {
		return nil, &callError{algorithm: algorithm, cause: err}
	}
	return &Memory{
		algorithm: algorithm,
		limits:    limits,
		maxKeys:   o.maxKeys,
		began:     time.Now(),
		keys:      make(map[string]*memoryKey),
	}, nil
}

func (o memoryOptions) check() error {
	if o.maxKeys < 1 {
		return fmt.Errorf("the most keys are %d, it must be at least 1", o.maxKeys)
	}
	return nil
}

// Allow is AllowN for one unit: see Limiter.
func (m *Memory) Allow(ctx context.Context, key string) (Result, error) {
	_, result, err := m.decide(ctx, key, 1, take)
	return result, err
}

// AllowN takes n units of key's limit, all of them or none: see Limiter.
func (m *Memory) AllowN(ctx context.Context, key string, n int) (Result, error) {
	_, result, err := m.decide(ctx, key, n, take)
	return result, err
}

// Peek tells what Allow would answer. It takes nothing and writes nothing.
func (m *Memory) Peek(ctx context.Context, key string) (Result, error) {
	_, result, err := m.decide(ctx, key, 1, peek)
	return result, err
}

// Reset forgets what key has used.
func (m *Memory) Reset(ctx context.Context, key string) error {
	if m == nil || m.limits == nil {
		return errNotMade
	}
	err := ctx.Err()
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return &callError{m.algorithm, key, err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.keys[memoryName(key)]; k != nil {
		m.remove(k)
	}
	return nil
}

// Len is how many keys are kept, those whose state no longer counts included.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.keys)
}

// decide also tells how many units were granted.
func (m *Memory) decide(ctx context.Context, key string, n int, mode mode) (int, Result, error) {
	if m == nil || m.limits == nil {
		return 0, Result{}, errNotMade
	}
	l, q, err := prepare(ctx, m.algorithm, m.limits, key, n, mode)
	if err != nil {
		return 0, Result{}, &callError{m.algorithm, key, err}
	}
	if granted, result, ok := l.fixed(n); ok {
		return granted, result, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	k := m.find(memoryName(key), now)
	a := decide(k.state, now, q)
	m.keep(k, now, q, a)
	return int(a.granted), a.result(l), nil
}

// now is the time in µs. It is read under the lock, so that no call sees an
// earlier time than one before it.
func (m *Memory) now() int64 { return time.Since(m.began).Microseconds() }

// find is the key as of now, a new one if there is none.
func (m *Memory) find(name string, now int64) *memoryKey {
	k := m.keys[name]
	if k != nil && k.expires < now/1000 {
		m.remove(k)
		k = nil
	}
	if k == nil {
		k = &memoryKey{key: name, state: m.algorithm.newTwin(), index: -1}
	}
	return k
}

// keep keeps what the answer a has left of a key.
func (m *Memory) keep(k *memoryKey, now int64, q request, a answer) {
	if k.index >= 0 {
		a = a.mend(now, k.expires, q)
	}
	switch {
	case a.ttl == gone && k.index >= 0:
		m.remove(k)
	case a.ttl > 0 && k.index >= 0:
		m.renew(k, now/1000+a.ttl)
	case a.ttl > 0:
		m.makeRoom(now / 1000)
		k.key = strings.Clone(k.key) // it may be part of a larger text, which must not stay
		k.expires = now/1000 + a.ttl
		m.add(k)
	}
}

// memoryName is what a caller's key is kept under: a long one by its start and
// its hash, which together are longer than any key that is kept as it is.
func memoryName(key string) string {
	if len(key) <= longestKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return key[:longestKey] + string(sum[:])
}

func (m *Memory) add(k *memoryKey) {
	m.keys[k.key] = k
	heap.Push(&m.queue, k)
}

func (m *Memory) remove(k *memoryKey) {
	delete(m.keys, k.key)
	heap.Remove(&m.queue, k.index)
	k.index = -1
}

func (m *Memory) renew(k *memoryKey, expires int64) {
	if expires != k.expires {
		k.expires = expires
		m.queue[k.index].expires = expires
		heap.Fix(&m.queue, k.index)
	}
}

// makeRoom makes room for one key. It also removes a second one that no longer
// counts, so that old keys do not linger while new ones come.
func (m *Memory) makeRoom(now int64) {
	for range 2 {
		if len(m.queue) > 0 && m.queue[0].expires < now {
			m.remove(m.queue[0].memoryKey)
		}
	}
	if len(m.keys) >= m.maxKeys {
		m.remove(m.queue[0].memoryKey)
	}
}

// An expiryQueue is a heap with the key that expires first at its root. It
// holds the times beside the keys, as it compares them much.
type expiryQueue []queued

type queued struct {
	expires int64
	*memoryKey
}

func (q expiryQueue) Len() int           { return len(q) }
func (q expiryQueue) Less(i, j int) bool { return q[i].expires < q[j].expires }

func (q expiryQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push adds a *memoryKey.
func (q *expiryQueue) Push(x any) {
	k := x.(*memoryKey)
	k.index = len(*q)
	*q = append(*q, queued{k.expires, k})
}

// Pop removes the last.
func (q *expiryQueue) Pop() any {
	last := len(*q) - 1
	k := (*q)[last].memoryKey
	(*q)[last].memoryKey = nil
	*q = (*q)[:last]
	return k
}
