package ratelimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"
)

// A Reservation is units that were taken before it is known how many will be
// used: see Reserve and Settle of Base. One of a *Redis can be stored and sent,
// for example as JSON, and settled by another process, with a limiter of the same
// algorithm, server and prefix. One of a *Memory is settled by that very Memory.
// Only Key and ID count then.
//
// If it is never settled, its units stay taken. It can be settled for a day;
// Redis remembers it for so long, in about 150 bytes beside its key. A Memory
// remembers as many as it keeps keys, and then forgets the oldest.
//
// What was not used is given back only as far as it still counts, so that no
// one ever gets more than the limit allows:
//
//   - Token bucket and leaky bucket: nothing once the bucket has been full (of
//     tokens) or empty (of units) since, as then they have come back already.
//   - Fixed window: nothing once the window has ended, or was cut short by a
//     shorter Period.
//   - Sliding window counter: to the window in which they were taken, as long as
//     that is the running one or the one before.
//   - Sliding window log: the very units, as long as they are in the log. In the
//     log of a large limit that takes time, as it is searched from its end.
//
// Nothing is given back after a Reset (by the fixed window, if its next window
// begins more than 2 ms after the one before), nor by the log and the fixed
// window if the server's clock was set back or forward meanwhile, nor while the
// limit is Unlimited or 0.
type Reservation struct {
	Key string `json:"key"`
	N   int    `json:"n"`  // the units that were taken
	ID  string `json:"id"` // "" if the limit was Unlimited
}

// ErrSettled says that a reservation was settled before, is more than a day old,
// or is not known to this limiter. Nothing was done.
var ErrSettled = errors.New("ratelimit: the reservation is settled or forgotten")

const reservationLife = 24 * time.Hour

// bucketName is a name for a bucket: see reserve.lua.
func bucketName() int64 { return 1 + mathrand.Int64N(1<<53-1) }

// prepareSettlement does what Settle does before anything else. done tells that
// there is nothing to settle.
func prepareSettlement(ctx context.Context, a Algorithm, limits Limits, r Reservation, used int) (l Limit, q request, done bool, err error) {
	if used < 0 {
		return Limit{}, request{}, false, fmt.Errorf("%w: %d units were used, it must be at least 0", ErrInvalidN, used)
	}
	l, q, err = prepare(ctx, a, limits, r.Key, used, settling)
	return l, q, r.ID == "", err
}

// Reserve takes n units, to be settled later: see Base.
func (r *Redis) Reserve(ctx context.Context, key string, n int) (Reservation, Result, error) {
	if r == nil || r.rdb == nil {
		return Reservation{}, Result{}, errNotMade
	}
	l, q, err := prepare(ctx, r.algorithm, r.limits, key, n, reserving)
	if err != nil {
		return Reservation{}, Result{}, &callError{r.algorithm, key, err}
	}
	if granted, result, ok := l.fixed(n); ok {
		return reservation(key, "", granted), result, nil
	}
	id := rand.Text()
	_, a, err := r.reserve(ctx, key, id, q, bucketName(), reservationLife.Milliseconds())
	if err != nil {
		return Reservation{}, Result{}, &callError{r.algorithm, key, err}
	}
	return reservation(key, id, int(a.granted)), a.result(l), nil
}

// reservation is the zero Reservation if nothing was granted.
func reservation(key, id string, granted int) Reservation {
	if granted == 0 {
		return Reservation{}
	}
	return Reservation{Key: key, N: granted, ID: id}
}

// Settle says how many units of a reservation were used: see Base.
func (r *Redis) Settle(ctx context.Context, reservation Reservation, used int) (Result, error) {
	if r == nil || r.rdb == nil {
		return Result{}, errNotMade
	}
	l, q, done, err := prepareSettlement(ctx, r.algorithm, r.limits, reservation, used)
	if err == nil {
		if done {
			return r.Peek(ctx, reservation.Key)
		}
		var a answer
		var known bool
		if _, result, ok := l.fixed(1); ok {
			if known, err = r.forget(ctx, reservation); err == nil && known {
				return result, nil
			}
		} else if known, a, err = r.reserve(ctx, reservation.Key, reservation.ID, q); err == nil && known {
			return a.result(l), nil
		}
		if err == nil {
			err = ErrSettled
		}
	}
	return Result{}, &callError{r.algorithm, reservation.Key, err}
}

// forget tells whether there was a reservation.
func (r *Redis) forget(ctx context.Context, reservation Reservation) (bool, error) {
	return guard(ctx, r.slots, func() (bool, error) {
		n, err := r.rdb.Unlink(ctx, r.reservationKey(reservation.Key, reservation.ID)).Result()
		return n == 1, err
	})
}

func (r *Redis) reservationKey(key, id string) string { return r.redisKey(key) + ":r:" + id }

// reserve runs reserve.lua and tells whether it knew the reservation.
func (r *Redis) reserve(ctx context.Context, key, id string, q request, more ...any) (bool, answer, error) {
	keys := []string{r.redisKey(key), r.reservationKey(key, id)}
	argv := append(append(q.argv(), string(r.algorithm)), more...)
	n, err := guard(ctx, r.slots, func() ([]int64, error) {
		return retry(ctx, r.rdb, func() ([]int64, error) {
			return r.reserves.run(ctx, r.rdb, keys, argv)
		})
	})
	if err == nil {
		err = checkLen(n, 4)
	}
	if err != nil {
		return false, answer{}, err
	}
	known := n[0] != -1 || q.mode != settling
	if !known {
		n[0], n[2] = 0, never
	}
	a, err := q.answer(n)
	return known, a, err
}
