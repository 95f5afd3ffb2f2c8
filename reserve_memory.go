package ratelimit

import (
	"context"
	"crypto/rand"
	"slices"
)

// Reserve takes n units, to be settled later: see Base.
func (m *Memory) Reserve(ctx context.Context, key string, n int) (Reservation, Result, error) {
	if m == nil || m.limits == nil {
		return Reservation{}, Result{}, errNotMade
	}
	l, q, err := prepare(ctx, m.algorithm, m.limits, key, n, reserving)
	if err != nil {
		return Reservation{}, Result{}, &callError{m.algorithm, key, err}
	}
	if granted, result, ok := l.fixed(n); ok {
		return reservation(key, "", granted), result, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	k := m.find(memoryName(key), now)
	a := decide(k.state, now, q)
	m.keep(k, now, q, a)
	if a.granted == 0 {
		return Reservation{}, a.result(l), nil
	}
	id := rand.Text()
	m.reserved.add(id, reserved{of: k.key, n: a.granted, mark: k.state.mark(now, a, bucketName()), until: now + reservationLife.Microseconds()}, m.maxKeys)
	return reservation(key, id, n), a.result(l), nil
}

// Settle says how many units of a reservation were used: see Base.
func (m *Memory) Settle(ctx context.Context, reservation Reservation, used int) (Result, error) {
	if m == nil || m.limits == nil {
		return Result{}, errNotMade
	}
	l, q, done, err := prepareSettlement(ctx, m.algorithm, m.limits, reservation, used)
	if err != nil {
		return Result{}, &callError{m.algorithm, reservation.Key, err}
	}
	if done {
		return m.Peek(ctx, reservation.Key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	k := m.find(memoryName(reservation.Key), now)
	r, ok := m.reserved.take(reservation.ID, k.key, now)
	if !ok {
		return Result{}, &callError{m.algorithm, reservation.Key, ErrSettled}
	}
	if _, result, ok := l.fixed(1); ok {
		return result, nil
	}
	a := settle(k.state, now, q, r.n, r.mark)
	m.keep(k, now, q, a)
	return a.result(l), nil
}

// reservations are those that are not settled.
type reservations struct {
	byID   map[string]reserved
	oldest []string // IDs in the order in which they end, with some that were settled
}

type reserved struct {
	of      string // the key
	n, mark int64
	until   int64 // µs
}

// add adds one. If there are most of them, the oldest is forgotten.
func (r *reservations) add(id string, one reserved, most int) {
	if r.byID == nil {
		r.byID = make(map[string]reserved)
	}
	if len(r.oldest) > 2*len(r.byID)+100 {
		r.oldest = slices.DeleteFunc(r.oldest, func(id string) bool { _, ok := r.byID[id]; return !ok })
	}
	for len(r.byID) >= most || len(r.oldest) > 0 && r.byID[r.oldest[0]].until < one.until-reservationLife.Microseconds() {
		delete(r.byID, r.oldest[0])
		r.oldest = r.oldest[1:]
	}
	r.byID[id] = one
	r.oldest = append(r.oldest, id)
}

// take removes one, if it is there and of that key.
func (r *reservations) take(id, key string, now int64) (reserved, bool) {
	one, ok := r.byID[id]
	if !ok || one.of != key || one.until < now {
		return reserved{}, false
	}
	delete(r.byID, id)
	return one, true
}
