package ratelimit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a Limiter whose state lives in Redis, shared by all processes that
// use the same server, prefix and algorithm. Every decision is made on the
// server, atomically, by the server's clock, in one round trip.
//
// Make one with the constructor of an algorithm. It holds no connection of its
// own and needs no closing.
//
// # Time
//
// A call returns at the latest some milliseconds after its context ends,
// whatever Redis and the client's options do. Without a deadline a call lasts
// as long as the client's own timeouts let it, by default 5 s for a server
// that does not answer and about 2 s for one that refuses connections: give
// calls a deadline.
//
// # Errors
//
// An error says that there is no decision. It names the algorithm and the key
// and wraps the cause: ErrInvalidN, ErrInvalidKey, ErrInvalidLimit, what a
// LimitFunc returned, the context's error, or what go-redis reports.
//
// A call takes its units at most once, also with a client that repeats
// commands. If it ends in an error after its script was sent, it is not known
// whether it has taken them.
type Redis struct {
	rdb       redis.UniversalClient
	limits    Limits
	algorithm Algorithm
	script    *script // decides one call
	batch     *script // decides several
	reserves  *script // reserves and settles
	prefix    string  // up to the hash tag
	calls     *coalescer
	slots     chan struct{} // one for each call beside them
	lastLimit atomic.Pointer[limitArgs]
}

const maxPrefix = 128

// An Option changes what a constructor makes.
type Option func(*redisOptions)

type redisOptions struct {
	prefix string
	apart  bool
}

// WithPrefix sets the first part of the keys in Redis: 1 to 128 bytes without
// braces, "ratelimit" if not set.
//
// Limiters of one algorithm with one prefix share their state, in one process
// as in many. Give limiters that count different things different prefixes.
func WithPrefix(prefix string) Option {
	return func(o *redisOptions) { o.prefix = prefix }
}

// newRedis makes a limiter without talking to Redis, so that a service starts
// also while Redis is away.
func newRedis(algorithm Algorithm, rdb redis.UniversalClient, limits Limits, options []Option) (*Redis, error) {
	o := redisOptions{prefix: "ratelimit"}
	for _, option := range options {
		if option != nil {
			option(&o)
		}
	}
	if err := cmp.Or(checkClient(rdb), o.check(), checkLimits(algorithm, limits)); err != nil {
		return nil, &callError{algorithm: algorithm, cause: err}
	}
	return &Redis{
		rdb:       rdb,
		limits:    limits,
		algorithm: algorithm,
		script:    algorithm.program().decide(),
		batch:     algorithm.program().batch(),
		reserves:  algorithm.program().reserve(),
		prefix:    o.prefix + ":" + string(algorithm) + ":",
		calls:     newCoalescer(rdb, o.apart),
		slots:     make(chan struct{}, maxInFlight),
	}, nil
}

func checkClient(rdb redis.UniversalClient) error {
	if isNil(rdb) {
		return errors.New("the Redis client is nil")
	}
	if _, ok := rdb.(redis.Pipeliner); ok {
		return errors.New("the Redis client is a Pipeliner, which answers only when it is executed")
	}
	return nil
}

func (o redisOptions) check() error {
	if len(o.prefix) < 1 || len(o.prefix) > maxPrefix {
		return fmt.Errorf("the prefix has %d bytes, it must have 1 to %d", len(o.prefix), maxPrefix)
	}
	if strings.ContainsAny(o.prefix, "{}") {
		return fmt.Errorf("the prefix %q has a brace, which would change the hash tag", o.prefix)
	}
	return nil
}

// checkLimits checks what can be known of limits before a call.
func checkLimits(a Algorithm, limits Limits) error {
	if isNil(limits) {
		return fmt.Errorf("%w: the Limits are nil", ErrInvalidLimit)
	}
	switch l := limits.(type) {
	case Limit:
		return l.check(a)
	case *Limit:
		return l.check(a)
	}
	return nil
}

func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Interface, reflect.Slice, reflect.Chan:
		return r.IsNil()
	default:
		return false
	}
}

// Allow is AllowN for one unit: see Limiter.
func (r *Redis) Allow(ctx context.Context, key string) (Result, error) {
	_, result, err := r.decide(ctx, key, 1, take)
	return result, err
}

// AllowN takes n units of key's limit, all of them or none: see Limiter.
func (r *Redis) AllowN(ctx context.Context, key string, n int) (Result, error) {
	_, result, err := r.decide(ctx, key, n, take)
	return result, err
}

// Peek tells what Allow would answer. It takes nothing and writes nothing.
func (r *Redis) Peek(ctx context.Context, key string) (Result, error) {
	_, result, err := r.decide(ctx, key, 1, peek)
	return result, err
}

// Reset forgets what key has used.
func (r *Redis) Reset(ctx context.Context, key string) error {
	if r == nil || r.rdb == nil {
		return errNotMade
	}
	err := checkKey(key)
	if err == nil {
		_, err = guard(ctx, r.slots, func() (struct{}, error) {
			return struct{}{}, r.rdb.Unlink(ctx, r.redisKey(key)).Err()
		})
	}
	if err != nil {
		return &callError{r.algorithm, key, err}
	}
	return nil
}

// decide also tells how many units were granted.
func (r *Redis) decide(ctx context.Context, key string, n int, m mode) (int, Result, error) {
	if r == nil || r.rdb == nil {
		return 0, Result{}, errNotMade
	}
	l, q, err := prepare(ctx, r.algorithm, r.limits, key, n, m)
	if err != nil {
		return 0, Result{}, &callError{r.algorithm, key, err}
	}
	if granted, result, ok := l.fixed(n); ok {
		return granted, result, nil
	}
	c := newCall()
	c.of, c.key, c.name, c.limit, c.q, c.argv = r, key, r.redisKey(key), l, q, r.limitArgs(l, q)
	left, err := r.calls.lane(ctx, c.name).do(ctx, c)
	if left {
		return 0, Result{}, &callError{r.algorithm, key, err}
	}
	a := c.answer
	c.recycle()
	if err != nil {
		return 0, Result{}, &callError{r.algorithm, key, err}
	}
	return int(a.granted), a.result(l), nil
}

// prepare does what every limiter does before it decides.
func prepare(ctx context.Context, a Algorithm, limits Limits, key string, n int, m mode) (Limit, request, error) {
	if err := ctx.Err(); err != nil {
		return Limit{}, request{}, err
	}
	if err := checkKey(key); err != nil {
		return Limit{}, request{}, err
	}
	if n < 1 && m != settling {
		return Limit{}, request{}, fmt.Errorf("%w: it is %d, it must be at least 1", ErrInvalidN, n)
	}
	l, static := limits.(Limit) // checked by the constructor
	if !static {
		var err error
		if l, err = limits.LimitFor(ctx, key); err != nil {
			return Limit{}, request{}, err
		}
		if err = l.check(a); err != nil {
			return Limit{}, request{}, err
		}
		if err = ctx.Err(); err != nil { // it may have taken its time
			return Limit{}, request{}, err
		}
	}
	return l, a.request(l, n, m), nil
}

var errNotMade = errors.New("ratelimit: the limiter was not made by its constructor, or the constructor's error was passed over")

func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", ErrInvalidKey)
	}
	return nil
}

// longestKey is the most bytes of a caller's key that are stored as they are.
const longestKey = 256

// redisKey is the one key in Redis for a caller's key: <prefix>:<algorithm>:{key}.
// The braces make the key alone choose the cluster slot. What is too long, or
// begins with the brace that would leave the hash tag empty, goes by its
// SHA-256; the ending sets that apart from a key which looks like a hash.
func (r *Redis) redisKey(key string) string {
	if len(key) > longestKey || key[0] == '}' {
		sum := sha256.Sum256([]byte(key))
		return r.prefix + "{" + hex.EncodeToString(sum[:]) + "}:sha256"
	}
	return r.prefix + "{" + key + "}"
}

// guard runs f and comes back when ctx ends, also if f does not: a client does
// not heed its context while it reads. f then ends by the client's timeouts.
func guard[T any](ctx context.Context, slots chan struct{}, f func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		return f()
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: errEnded}
		defer func() {
			<-slots
			// If a hook of the client panics, that is not on a goroutine of a
			// server that recovers, so it would end the process.
			if p := recover(); p != nil {
				o.err = fmt.Errorf("the Redis client panicked: %v", p)
			}
			done <- o
		}()
		if err := ctx.Err(); err != nil { // the caller has gone, and not all clients look
			o.err = err
			return
		}
		o.value, o.err = f()
	}()
	select {
	case o := <-done:
		return o.value, contextError(ctx, o.err)
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// errEnded is the outcome of a call whose goroutine a hook of the client has ended.
var errEnded = errors.New("the Redis client ended its goroutine")

// contextError says of a failed call whose time is up that this is why: a
// client reports it in many ways, and a moment before the context does.
func contextError(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	if e := ctx.Err(); e != nil {
		return fmt.Errorf("%w: %w", e, err)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}
