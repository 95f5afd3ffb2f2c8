// Package ratelimit limits how often things happen, across all processes that
// share one Redis. It has five algorithms, and each decision is made on the
// server, atomically, in one round trip.
//
// # Quick start
//
// Make a limiter once, at start. This does not talk to Redis yet:
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//
//	// 100 calls a minute for each key, at most 20 of them at once.
//	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerMinute(100).WithBurst(20))
//	if err != nil {
//		log.Fatal(err)
//	}
//
// Ask it at every call, with a key that says who is limited:
//
//	result, err := limiter.Allow(ctx, "user:"+user)
//	switch {
//	case err != nil: // no decision: go ahead without one, or do not
//		fmt.Println("error:", err)
//	case !result.Allowed: // the same call succeeds after result.RetryAfter
//		fmt.Println("refused")
//	default:
//		fmt.Println("allowed, left:", result.Remaining)
//	}
//
// # Which algorithm
//
//   - Token bucket ([NewTokenBucket]): lets bursts through, keeps to the rate in
//     the long run. For public APIs and for people. If in doubt, take this one.
//   - Leaky bucket ([NewLeakyBucket]): strictly paced, no bursts unless allowed.
//     For a backend that bears none.
//   - Fixed window ([NewFixedWindow]): the cheapest; up to twice the rate may
//     pass around the boundary of two windows. For internal quotas.
//   - Sliding window log ([NewSlidingWindowLog]): never more than the rate in any
//     period, at about 10 bytes a unit. For what is dear, and for audits.
//   - Sliding window counter ([NewSlidingWindowCounter]): close to the log, in
//     three numbers a key whatever the rate. For general use.
//
// The token bucket and this leaky bucket, which is a meter and queues nothing,
// are the same mathematics: level = burst − tokens. They differ in what a Limit
// without a Burst means: Rate tokens for the one, a single unit for the other.
//
// # What is promised
//
//   - No more passes than the algorithm allows, however many goroutines and
//     processes ask at once.
//   - A call is charged at most once, even where the client would repeat a
//     command whose reply was lost. A refused call is not charged.
//   - A call returns within some milliseconds of the end of its context, whatever
//     Redis does. Give calls a deadline: without one the client's own timeouts
//     are all that bounds them.
//   - RetryAfter is exact, for any n: the same call succeeds after it, and not
//     before, if nobody else takes units meanwhile. A call that can never succeed
//     is told [Never]. Where Redis keeps only milliseconds, as for the fixed
//     window, exact means to the millisecond.
//     After a limit has changed it is exact again with the next Allow, but for
//     3 ms by which the key may be gone early.
//   - No goroutine outlives a call by more than the client's own timeouts.
//     Nothing runs in the background, and there is nothing to close.
//   - Every key in Redis expires, by the time when it has nothing more to tell.
//   - Time is the Redis server's. The clocks of the callers do not matter.
//
// # Limits
//
// A limiter gets its [Limits] when it is made: a [Limit] for all keys, or a
// [LimitFunc] that gives each key its own. A LimitFunc is asked at every call,
// and Redis holds what was used and never the limit, so that a changed limit
// counts from the next call on. The constructors tell what it does to what was
// used before.
//
// # Errors
//
// A refusal is a [Result] and never an error. An error means that there is no
// decision, and only the caller knows what to do then: go ahead (fail open),
// refuse (fail closed), or ask another limiter. [Fallback] does each of these,
// and leaves Redis alone while it does not answer. Use [errors.Is] with
// [ErrInvalidLimit], [ErrInvalidN] and [ErrInvalidKey], which are mistakes of the
// caller, with the context's errors, and with the errors of go-redis.
//
// # Keys
//
// The state for a key is in Redis under <prefix>:<algorithm>:{key}. Two limiters
// of one algorithm with one prefix share their counts: give limiters that count
// different things different prefixes, with [WithPrefix]. Keys are stored as they
// are: hash personal data first.
//
// # How the parts compose
//
// Everything that decides is a [Limiter]: [Redis], [Memory], what wraps them, and
// what you write around them. [Memory] makes the same decisions within one
// process, for tests, for single instances, and to fall back on.
//
//   - [Fallback] asks a second limiter where the first has no decision.
//   - [DenyCache] answers for keys that are refused, without asking.
//   - [Lease] takes units of hot keys in blocks and hands them out in process.
//   - [All] makes one limiter of several that hold together.
//   - [Wait] and [WaitN] sleep until a limiter allows a call.
//
// [Redis] and [Memory] can do more than a Limiter: see [Base] for parts of what
// was asked, debts, and reservations. [AllowAll] decides several requests
// together, and [AllowEach] many apart, in one round trip.
package ratelimit
