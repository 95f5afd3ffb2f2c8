package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

// A limiter is made once and asked at every call.
func Example() {
	ctx, rdb, user := context.Background(), newClient(), newUser()
	defer rdb.Close()

	// 60 calls an hour for each user, at most 3 of them at once.
	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(60).WithBurst(3))
	if err != nil {
		log.Fatal(err)
	}

	for range 4 {
		result, err := limiter.Allow(ctx, "user:"+user)
		switch {
		case err != nil: // no decision: go ahead without one, or do not
			fmt.Println("error:", err)
		case !result.Allowed: // the same call succeeds after result.RetryAfter
			fmt.Println("refused")
		default:
			fmt.Println("allowed, left:", result.Remaining)
		}
	}
	// Output:
	// allowed, left: 2
	// allowed, left: 1
	// allowed, left: 0
	// refused
}

// No constructor talks to Redis, so that a service starts while Redis is away.
func Example_start() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})

	// 100 calls a minute for each key, at most 20 of them at once.
	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerMinute(100).WithBurst(20))
	if err != nil {
		log.Fatal(err)
	}

	fmt.Printf("%T made, %d connections\n", limiter, rdb.PoolStats().TotalConns)
	// Output: *ratelimit.Redis made, 0 connections
}

// limitByIP answers for next when a caller comes too often. If Redis gives no
// decision in time, the request goes through.
func limitByIP(limiter ratelimit.Limiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()

		ip, _, _ := net.SplitHostPort(r.RemoteAddr)
		result, err := limiter.Allow(ctx, "ip:"+ip)
		if err != nil {
			log.Println("unlimited:", err)
		} else if !result.Allowed {
			if result.RetryAfter != ratelimit.Never {
				seconds := math.Ceil(result.RetryAfter.Seconds()) // never too early
				w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
			}
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// In an HTTP server: refused requests get status 429, and are told when to come
// back.
func Example_http() {
	limiter, err := ratelimit.NewMemory(ratelimit.FixedWindow, ratelimit.PerHour(2))
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	handler := limitByIP(limiter, hello)

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 ""
	// 200 ""
	// 429 "3600"
}

// A call with a deadline returns when it has passed, whatever Redis does. Here
// is a server that takes connections and never says a word.
func Example_timeout() {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer silent.Close()
	rdb := redis.NewClient(&redis.Options{Addr: silent.Addr().String()})
	defer rdb.Close()
	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerSecond(10))
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = limiter.Allow(ctx, "user:12345")

	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// Fail open: without a decision the work is done. For limits that protect from
// too much of a good thing.
func Example_failOpen() {
	rdb := newClientOfNothing()
	defer rdb.Close()
	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerSecond(10))
	if err != nil {
		log.Fatal(err)
	}

	mayPass := func(ctx context.Context, key string) bool {
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		result, err := limiter.Allow(ctx, key)
		return err != nil || result.Allowed
	}

	fmt.Println(mayPass(context.Background(), "user:12345"))
	// Output: true
}

// Fail closed: without a decision the work is not done. For limits on what
// costs money, or on guesses at a password.
func Example_failClosed() {
	rdb := newClientOfNothing()
	defer rdb.Close()
	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerSecond(10))
	if err != nil {
		log.Fatal(err)
	}

	mayLogIn := func(ctx context.Context, key string) bool {
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		result, err := limiter.Allow(ctx, key)
		return err == nil && result.Allowed
	}

	fmt.Println(mayLogIn(context.Background(), "user:12345"))
	// Output: false
}

// Fall back: while Redis is away, each process limits for itself.
func Example_fallBack() {
	rdb := newClientOfNothing()
	defer rdb.Close()
	limits := ratelimit.PerHour(60)
	shared, err := ratelimit.NewTokenBucket(rdb, limits)
	if err != nil {
		log.Fatal(err)
	}
	local, err := ratelimit.NewMemory(ratelimit.TokenBucket, limits)
	if err != nil {
		log.Fatal(err)
	}

	allow := func(ctx context.Context, key string) (ratelimit.Result, error) {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		result, err := shared.Allow(short, key)
		if err != nil {
			return local.Allow(ctx, key) // short may be over
		}
		return result, nil
	}

	result, err := allow(context.Background(), "user:12345")
	fmt.Println(result.Allowed, result.Remaining, err)
	// Output: true 59 <nil>
}

// Wait instead of refuse: RetryAfter is exact, so that a lone caller needs one
// sleep.
func Example_wait() {
	limiter, err := ratelimit.NewMemory(ratelimit.LeakyBucket, ratelimit.PerSecond(100))
	if err != nil {
		log.Fatal(err)
	}

	start := time.Now()
	for range 5 {
		if _, err := ratelimit.Wait(context.Background(), limiter, "mail"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(time.Since(start) >= 40*time.Millisecond) // 4 sleeps of 10 ms
	// Output: true
}

// A wait that would outlast the deadline ends before it begins.
func ExampleWait_deadline() {
	limiter, err := ratelimit.NewMemory(ratelimit.FixedWindow, ratelimit.PerHour(1))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	for range 2 {
		result, err := ratelimit.Wait(ctx, limiter, "report")
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			fmt.Println("come back in", result.RetryAfter.Round(time.Hour))
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("go ahead")
		}
	}
	fmt.Println(ctx.Err()) // there was time left
	// Output:
	// go ahead
	// come back in 1h0m0s
	// <nil>
}

// WaitN waits for all units that a call costs. What never fits is told at once.
func ExampleWaitN() {
	limiter, err := ratelimit.NewMemory(ratelimit.TokenBucket, ratelimit.PerSecond(1000).WithBurst(100))
	if err != nil {
		log.Fatal(err)
	}

	for _, kilobytes := range []int{100, 20, 500} {
		_, err := ratelimit.WaitN(context.Background(), limiter, "upload", kilobytes)
		fmt.Println(kilobytes, err == nil, errors.Is(err, ratelimit.ErrNever))
	}
	// Output:
	// 100 true false
	// 20 true false
	// 500 false true
}

// Mistakes of the caller can be told apart with errors.Is.
func Example_errors() {
	_, err := ratelimit.NewMemory(ratelimit.TokenBucket, ratelimit.PerSecond(-5))
	fmt.Println(errors.Is(err, ratelimit.ErrInvalidLimit))
	fmt.Println(err)

	limiter, err := ratelimit.NewMemory(ratelimit.TokenBucket, ratelimit.PerSecond(5))
	if err != nil {
		log.Fatal(err)
	}
	_, err = limiter.AllowN(context.Background(), "user:12345", 0)
	fmt.Println(errors.Is(err, ratelimit.ErrInvalidN))
	_, err = limiter.Allow(context.Background(), "")
	fmt.Println(errors.Is(err, ratelimit.ErrInvalidKey))
	// Output:
	// true
	// ratelimit: token_bucket: invalid limit: Rate is -5, it must be 0 to 1000000000000
	// true
	// true
}

// Six tokens an hour into a bucket of three: three calls at once, then one each
// ten minutes.
func ExampleNewTokenBucket() {
	rdb, user := newClient(), newUser()
	defer rdb.Close()
	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(6).WithBurst(3))
	if err != nil {
		log.Fatal(err)
	}

	for range 4 {
		result, err := limiter.Allow(context.Background(), user)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Remaining, result.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 10m0s
}

// Six calls an hour, strictly paced: one each ten minutes.
func ExampleNewLeakyBucket() {
	rdb, user := newClient(), newUser()
	defer rdb.Close()
	limiter, err := ratelimit.NewLeakyBucket(rdb, ratelimit.PerHour(6))
	if err != nil {
		log.Fatal(err)
	}

	for range 2 {
		result, err := limiter.Allow(context.Background(), user)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 0s
	// false 10m0s
}

// Two calls in an hour that the first of them begins.
func ExampleNewFixedWindow() {
	rdb, user := newClient(), newUser()
	defer rdb.Close()
	limiter, err := ratelimit.NewFixedWindow(rdb, ratelimit.PerHour(2))
	if err != nil {
		log.Fatal(err)
	}

	for range 3 {
		result, err := limiter.Allow(context.Background(), user)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Remaining, result.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 1h0m0s
}

// Never more than two transfers in any 24 hours.
func ExampleNewSlidingWindowLog() {
	rdb, user := newClient(), newUser()
	defer rdb.Close()
	limiter, err := ratelimit.NewSlidingWindowLog(rdb, ratelimit.PerDay(2))
	if err != nil {
		log.Fatal(err)
	}

	for range 3 {
		result, err := limiter.Allow(context.Background(), user)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Remaining, result.RetryAfter.Round(time.Hour))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 24h0m0s
}

// A thousand units an hour in three numbers a key.
func ExampleNewSlidingWindowCounter() {
	rdb, user := newClient(), newUser()
	defer rdb.Close()
	limiter, err := ratelimit.NewSlidingWindowCounter(rdb, ratelimit.PerHour(1000))
	if err != nil {
		log.Fatal(err)
	}

	for _, n := range []int{600, 600, 400} {
		result, err := limiter.AllowN(context.Background(), user, n)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(n, result.Allowed, result.Remaining)
	}
	// Output:
	// 600 true 400
	// 600 false 400
	// 400 true 0
}

// The same decisions in one process: for tests, for a single instance, and to
// fall back on.
func ExampleNewMemory() {
	limiter, err := ratelimit.NewMemory(ratelimit.SlidingWindowLog, ratelimit.PerHour(2))
	if err != nil {
		log.Fatal(err)
	}

	for range 3 {
		result, err := limiter.Allow(context.Background(), "user:12345")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

// A Memory does not grow without bound, however many keys there are.
func ExampleWithMaxKeys() {
	limiter, err := ratelimit.NewMemory(ratelimit.TokenBucket, ratelimit.PerHour(60), ratelimit.WithMaxKeys(1000))
	if err != nil {
		log.Fatal(err)
	}

	for i := range 5000 {
		if _, err := limiter.Allow(context.Background(), "user:"+strconv.Itoa(i)); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(limiter.Len())
	// Output: 1000
}

// Code that takes a Limiter runs on Redis, and in its tests in memory.
func ExampleLimiter() {
	send := func(ctx context.Context, limiter ratelimit.Limiter, to string) string {
		result, err := limiter.Allow(ctx, "mail:"+to)
		if err != nil || !result.Allowed {
			return "later"
		}
		return "sent"
	}

	limiter, err := ratelimit.NewMemory(ratelimit.LeakyBucket, ratelimit.PerHour(1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(send(context.Background(), limiter, "ada"))
	fmt.Println(send(context.Background(), limiter, "ada"))
	fmt.Println(send(context.Background(), limiter, "bob"))
	// Output:
	// sent
	// later
	// sent
}

// A call may cost more than one unit. It takes all of them or none.
func ExampleLimiter_allowN() {
	limiter, err := ratelimit.NewMemory(ratelimit.TokenBucket, ratelimit.PerHour(100))
	if err != nil {
		log.Fatal(err)
	}

	for _, megabytes := range []int{70, 50, 30} {
		result, err := limiter.AllowN(context.Background(), "upload:user:12345", megabytes)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(megabytes, result.Allowed, result.Remaining)
	}
	// Output:
	// 70 true 30
	// 50 false 30
	// 30 true 0
}

// Peek asks and takes nothing.
func ExampleLimiter_peek() {
	ctx := context.Background()
	limiter, err := ratelimit.NewMemory(ratelimit.FixedWindow, ratelimit.PerHour(10))
	if err != nil {
		log.Fatal(err)
	}

	for range 2 {
		result, err := limiter.Peek(ctx, "user:12345")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, result.Remaining)
	}
	// Output:
	// true 10
	// true 10
}

// Reset forgets what a key has used, here after the right password.
func ExampleLimiter_reset() {
	ctx := context.Background()
	limiter, err := ratelimit.NewMemory(ratelimit.SlidingWindowLog, ratelimit.PerHour(3))
	if err != nil {
		log.Fatal(err)
	}

	if _, err := limiter.AllowN(ctx, "login:ada", 3); err != nil {
		log.Fatal(err)
	}
	before, err := limiter.Peek(ctx, "login:ada")
	if err != nil {
		log.Fatal(err)
	}
	if err := limiter.Reset(ctx, "login:ada"); err != nil {
		log.Fatal(err)
	}
	after, err := limiter.Peek(ctx, "login:ada")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(before.Remaining, after.Remaining)
	// Output: 0 3
}

// What can never fit is refused as such: there is no use in waiting.
func ExampleResult_never() {
	limiter, err := ratelimit.NewMemory(ratelimit.TokenBucket, ratelimit.PerHour(100).WithBurst(10))
	if err != nil {
		log.Fatal(err)
	}

	result, err := limiter.AllowN(context.Background(), "user:12345", 11)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Allowed, result.RetryAfter == ratelimit.Never)
	// Output: false true
}

func ExamplePer() {
	fmt.Println(ratelimit.PerSecond(10))
	fmt.Println(ratelimit.PerMinute(600))
	fmt.Println(ratelimit.PerHour(1000))
	fmt.Println(ratelimit.PerDay(5000))
	fmt.Println(ratelimit.Per(3, 10*time.Second))
	// Output:
	// 10 per 1s
	// 600 per 1m
	// 1000 per 1h
	// 5000 per 24h
	// 3 per 10s
}

// A Limit can as well be written in full, as from a configuration.
func ExampleLimit() {
	limit := ratelimit.Limit{Rate: 100, Period: time.Minute, Burst: 20}
	fmt.Println(limit == ratelimit.PerMinute(100).WithBurst(20))
	// Output: true
}

func ExampleLimit_WithBurst() {
	limit := ratelimit.PerMinute(100).WithBurst(20)
	fmt.Println(limit.Rate, limit.Period, limit.Burst)
	// Output: 100 1m0s 20
}

func ExampleLimit_String() {
	fmt.Println(ratelimit.PerMinute(100).WithBurst(20))
	fmt.Println(ratelimit.Unlimited)
	// Output:
	// 100 per 1m, burst 20
	// unlimited
}

// A rate of 0 blocks; Unlimited lets everything through. Redis is asked for
// neither.
func ExampleLimit_extremes() {
	for _, limit := range []ratelimit.Limit{ratelimit.Per(0, time.Second), ratelimit.Unlimited} {
		limiter, err := ratelimit.NewMemory(ratelimit.TokenBucket, limit)
		if err != nil {
			log.Fatal(err)
		}
		result, err := limiter.Allow(context.Background(), "user:12345")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(limit, result.Allowed)
	}
	// Output:
	// 0 per 1s false
	// unlimited true
}

// Each tenant has the limit of its plan. A key without a plan gets a limit, too:
// if the service fails open, an error for it would be a free pass for whoever
// makes up such a key.
func ExampleLimitFunc() {
	plans := map[string]ratelimit.Limit{
		"free":      ratelimit.PerHour(60).WithBurst(2),
		"pro":       ratelimit.PerHour(6000).WithBurst(100),
		"internal":  ratelimit.Unlimited,
		"suspended": ratelimit.Per(0, time.Hour),
	}
	limits := ratelimit.LimitFunc(func(ctx context.Context, key string) (ratelimit.Limit, error) {
		plan, _, _ := strings.Cut(key, ":")
		limit, ok := plans[plan]
		if !ok {
			limit = plans["free"]
		}
		return limit, nil
	})

	limiter, err := ratelimit.NewMemory(ratelimit.TokenBucket, limits)
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"free:ada", "pro:bob", "internal:cron", "suspended:eve", "gold:zoe"} {
		result, err := limiter.Allow(context.Background(), key)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s: %t by %v\n", key, result.Allowed, result.Limit)
	}
	// Output:
	// free:ada: true by 60 per 1h, burst 2
	// pro:bob: true by 6000 per 1h, burst 100
	// internal:cron: true by unlimited
	// suspended:eve: false by 0 per 1h
	// gold:zoe: true by 60 per 1h, burst 2
}

// A limit that changes while the service runs counts from the next call on, and
// what was used stays used.
func ExampleLimitFunc_change() {
	var current atomic.Pointer[ratelimit.Limit]
	set := func(l ratelimit.Limit) { current.Store(&l) }
	set(ratelimit.PerHour(10))

	limiter, err := ratelimit.NewMemory(ratelimit.SlidingWindowLog,
		ratelimit.LimitFunc(func(context.Context, string) (ratelimit.Limit, error) {
			return *current.Load(), nil
		}))
	if err != nil {
		log.Fatal(err)
	}

	for _, rate := range []int{10, 5, 20} {
		set(ratelimit.PerHour(rate))
		result, err := limiter.AllowN(context.Background(), "user:12345", 4)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Limit, result.Allowed, result.Remaining)
	}
	// Output:
	// 10 per 1h true 6
	// 5 per 1h false 1
	// 20 per 1h true 12
}

// Limiters that count different things need different prefixes. Those of one
// algorithm with one prefix share their counts.
func ExampleWithPrefix() {
	ctx, rdb, user := context.Background(), newClient(), newUser()
	defer rdb.Close()

	reads, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(100), ratelimit.WithPrefix("reads"))
	if err != nil {
		log.Fatal(err)
	}
	writes, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(10), ratelimit.WithPrefix("writes"))
	if err != nil {
		log.Fatal(err)
	}

	for range 2 {
		if _, err := writes.Allow(ctx, user); err != nil {
			log.Fatal(err)
		}
	}
	read, err := reads.Peek(ctx, user)
	if err != nil {
		log.Fatal(err)
	}
	written, err := writes.Peek(ctx, user)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(read.Remaining, written.Remaining)
	// Output: 100 8
}
