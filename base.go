package ratelimit

import "context"

// A Base is a Limiter that counts by itself rather than wrap another: a *Redis
// or a *Memory, and nothing else. It can do more than a Limiter, with the same
// errors: n is at least 1, or the error is ErrInvalidN.
type Base interface {
	Limiter

	// AllowUpTo takes as many of n units of key's limit as are free, which may
	// be none, and tells how many. The Result is that of an AllowN for so many;
	// if it is none, the Result is a refusal whose RetryAfter is the wait for one.
	AllowUpTo(ctx context.Context, key string, n int) (int, Result, error)

	// Charge takes n units of key's limit whether they are free or not, so that
	// later calls wait until the debt is paid. The debt is at most what the limit
	// allows at once; what would go beyond is not charged. So a leaky bucket
	// without a Burst owes 1 at most. The Result is what Peek would then answer,
	// not whether something was charged.
	//
	// A debt in a fixed window ends with the window.
	Charge(ctx context.Context, key string, n int) (Result, error)

	// Refund gives n units back, at most those that count as used. The Result is
	// what Peek would then answer. To give back what a certain call took, and
	// only as long as it still counts, use Reserve and Settle.
	//
	// The windows give back what was taken last, whoever took it.
	Refund(ctx context.Context, key string, n int) (Result, error)

	// Reserve takes n units as AllowN does, to be settled later by what was
	// really used. If it is refused, or beside an error, the Reservation is zero
	// and there is nothing to settle; but after an error once the script was sent
	// the units may be taken, and stay so. While a cluster moves the slot of a key
	// to another node, Reserve and Settle may fail with TRYAGAIN.
	Reserve(ctx context.Context, key string, n int) (Reservation, Result, error)

	// Settle says how many units of a reservation were really used: 0 cancels
	// it. What was not used is given back as far as it still counts, see
	// Reservation; what was used beyond it is charged as by Charge. The Result
	// is what Peek would then answer. If used is below 0 the error is ErrInvalidN.
	//
	// A reservation is settled once: later the error is ErrSettled and nothing
	// happens. So a Settle that ended in an error may be repeated; if that error
	// came too late, the next is ErrSettled. Settle also when the context of the
	// work has ended: see context.WithoutCancel.
	Settle(ctx context.Context, r Reservation, used int) (Result, error)

	// group decides several requests, all or nothing. Their limiters must keep
	// their state where this one does.
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
