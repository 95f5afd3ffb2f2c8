package ratelimit

import "context"

// A Base is a Limiter that counts by itself rather than wrap another: a *Redis
// or a *Memory. It can do more than a Limiter.
type Base interface {
	Limiter

	// AllowUpTo takes as many of n units of key's limit as are free, which may
	// be none, and tells how many. The Result is that of an AllowN for so many;
	// if it is none, the Result is a refusal whose RetryAfter is the wait for one.
	AllowUpTo(ctx context.Context, key string, n int) (int, Result, error)

	// Charge takes n units of key's limit whether they are free or not, so that
	// later calls wait until the debt is paid. The debt is at most what the limit
	// allows at once; what would go beyond is not charged. The Result is what
	// Peek would then answer.
	//
	// A debt in a fixed window ends with the window.
	Charge(ctx context.Context, key string, n int) (Result, error)

	// Refund gives n units back, at most those that count as used. The Result is
	// what Peek would then answer. To give back what a certain call took, and
	// only as long as it still counts, use Reserve and Settle.
	//
	// The windows give back what was taken last.
	Refund(ctx context.Context, key string, n int) (Result, error)

	// Reserve takes n units as AllowN does, to be settled later by what was
	// really used. The Reservation is of use only if the Result is Allowed.
	Reserve(ctx context.Context, key string, n int) (Reservation, Result, error)

	// Settle says how many units of a reservation were really used: 0 cancels
	// it. What was not used is given back as far as it still counts, see
	// Reservation; what was used beyond it is charged as by Charge. The Result
	// is what Peek would then answer.
	//
	// A reservation is settled once: later the error is ErrSettled and nothing
	// happens. So a Settle that ended in an error may be repeated.
	Settle(ctx context.Context, r Reservation, used int) (Result, error)

	// group is a limiter that decides several requests, all to limiters that
	// state is shared with, all or nothing.
	group(ctx context.Context, requests []Request, m mode) ([]Result, error)
}

var (
	_ Base = (*Redis)(nil)
	_ Base = (*Memory)(nil)
)

// AllowUpTo takes as many of n units as are free: see Base.
func (r *Redis) AllowUpTo(ctx context.Context, key string, n int) (int, Result, error) {
	return r.decide(ctx, key, n, upTo)
}

// AllowUpTo takes as many of n units as are free: see Base.
func (m *Memory) AllowUpTo(ctx context.Context, key string, n int) (int, Result, error) {
	return m.decide(ctx, key, n, upTo)
}

// Charge takes n units whether they are free or not: see Base.
func (r *Redis) Charge(ctx context.Context, key string, n int) (Result, error) {
	_, result, err := r.decide(ctx, key, n, charge)
	return result, err
}

// Charge takes n units whether they are free or not: see Base.
func (m *Memory) Charge(ctx context.Context, key string, n int) (Result, error) {
	_, result, err := m.decide(ctx, key, n, charge)
	return result, err
}

// Refund gives n units back: see Base.
func (r *Redis) Refund(ctx context.Context, key string, n int) (Result, error) {
	_, result, err := r.decide(ctx, key, n, refund)
	return result, err
}

// Refund gives n units back: see Base.
func (m *Memory) Refund(ctx context.Context, key string, n int) (Result, error) {
	_, result, err := m.decide(ctx, key, n, refund)
	return result, err
}
