package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/weirgo/ratelimit"
)

// 10 a second and 1,000 a day: a call takes from both or, if one refuses, from
// neither.
func ExampleAll() {
	ctx, rdb, user := context.Background(), newClient(), newUser()
	defer rdb.Close()

	perSecond, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerSecond(10))
	if err != nil {
		log.Fatal(err)
	}
	perDay, err := ratelimit.NewFixedWindow(rdb, ratelimit.PerDay(1000))
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := ratelimit.All(perSecond, perDay)
	if err != nil {
		log.Fatal(err)
	}

	for _, n := range []int{8, 11} {
		result, err := limiter.AllowN(ctx, "user:"+user, n)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed, "by", result.Limit)
	}
	day, err := perDay.Peek(ctx, "user:"+user)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("left for the day:", day.Remaining)
	// Output:
	// true by 10 per 1s
	// false by 10 per 1s
	// left for the day: 992
}

// A call counts for its user and for the user's tenant. The hash tag in braces
// keeps the two keys on one node of a cluster.
func ExampleAllowAll() {
	ctx, rdb, tenant := context.Background(), newClient(), newUser()
	defer rdb.Close()

	users, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(60), ratelimit.WithPrefix("users"))
	if err != nil {
		log.Fatal(err)
	}
	tenants, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(100), ratelimit.WithPrefix("tenants"))
	if err != nil {
		log.Fatal(err)
	}

	allow := func(user string, n int) (ratelimit.Result, []ratelimit.Result, error) {
		return ratelimit.AllowAll(ctx,
			ratelimit.Request{Limiter: users, Key: "{" + tenant + "}:" + user, N: n},
			ratelimit.Request{Limiter: tenants, Key: "{" + tenant + "}", N: n},
		)
	}
	for _, user := range []string{"ada", "bob"} {
		result, each, err := allow(user, 55)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(user, result.Allowed, "by", result.Limit)
		fmt.Println("  user", each[0].Allowed, "tenant", each[1].Allowed)
	}
	// Output:
	// ada true by 60 per 1h
	//   user true tenant true
	// bob false by 100 per 1h
	//   user true tenant false
}

// Many keys in one round trip, each decided by itself.
func ExampleAllowEach() {
	ctx, rdb := context.Background(), newClient()
	defer rdb.Close()
	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(100))
	if err != nil {
		log.Fatal(err)
	}

	var requests []ratelimit.Request
	for _, size := range []int{60, 70, 130} {
		requests = append(requests, ratelimit.Request{Limiter: limiter, Key: "device:" + newUser(), N: size})
	}
	for i, outcome := range ratelimit.AllowEach(ctx, requests...) {
		if outcome.Err != nil { // of this one only
			fmt.Println("error:", outcome.Err)
			continue
		}
		fmt.Println(requests[i].N, outcome.Result.Allowed, outcome.Result.Remaining)
	}
	// Output:
	// 60 true 40
	// 70 true 30
	// 130 false 100
}

// As much of a batch as the limit lets through; the rest waits.
func ExampleRedis_AllowUpTo() {
	ctx, rdb, user := context.Background(), newClient(), newUser()
	defer rdb.Close()
	limiter, err := ratelimit.NewSlidingWindowCounter(rdb, ratelimit.PerHour(5))
	if err != nil {
		log.Fatal(err)
	}

	batch := []string{"a", "b", "c"}
	for range 3 {
		granted, result, err := limiter.AllowUpTo(ctx, "user:"+user, len(batch))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch[:granted], "left:", result.Remaining)
	}
	// Output:
	// [a b c] left: 2
	// [a b] left: 0
	// [] left: 0
}

// What a call costs is known only afterwards: it takes an estimate first, and
// settles what it has really used.
func ExampleRedis_Reserve() {
	ctx, rdb, tenant := context.Background(), newClient(), newUser()
	defer rdb.Close()
	budget, err := ratelimit.NewFixedWindow(rdb, ratelimit.PerMinute(5000))
	if err != nil {
		log.Fatal(err)
	}
	model := func(context.Context) (tokens int, err error) { return 730, nil }

	reservation, result, err := budget.Reserve(ctx, "tenant:"+tenant, 2000)
	if err != nil || !result.Allowed {
		return
	}
	fmt.Println("reserved, left:", result.Remaining)

	used, err := model(ctx)
	if err != nil {
		used = 0 // all is given back
	}
	settled, err := budget.Settle(context.WithoutCancel(ctx), reservation, used)
	if err != nil {
		log.Println("it stays charged:", err)
	}
	fmt.Println("settled, left:", settled.Remaining)
	// Output:
	// reserved, left: 3000
	// settled, left: 4270
}

// A reservation is settled once.
func ExampleRedis_Settle() {
	ctx := context.Background()
	uploads, err := ratelimit.NewMemory(ratelimit.FixedWindow, ratelimit.PerDay(100))
	if err != nil {
		log.Fatal(err)
	}
	reservation, _, err := uploads.Reserve(ctx, "user:12345", 40)
	if err != nil {
		log.Fatal(err)
	}

	for _, used := range []int{55, 0} { // more than was taken; and a second time
		result, err := uploads.Settle(ctx, reservation, used)
		fmt.Println(result.Remaining, errors.Is(err, ratelimit.ErrSettled))
	}
	// Output:
	// 45 false
	// 0 true
}

// A wrong password costs 10, also where fewer are left: then it is a debt, which
// has to be waited out.
func ExampleRedis_Charge() {
	ctx, rdb, user := context.Background(), newClient(), newUser()
	defer rdb.Close()
	logins, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(15))
	if err != nil {
		log.Fatal(err)
	}
	check := func(password string) bool { return password == "secret" }

	for _, password := range []string{"123456", "qwerty", "secret"} {
		result, err := logins.Allow(ctx, "login:"+user)
		if err == nil && result.Allowed && !check(password) {
			result, err = logins.Charge(ctx, "login:"+user, 9) // and the one above
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(password, result.Allowed, result.Remaining, result.RetryAfter.Round(time.Minute))
	}
	// Output:
	// 123456 true 5 0s
	// qwerty false 0 24m0s
	// secret false 0 24m0s
}

// Who solves a captcha gets 5 attempts back; never more than there were at first.
func ExampleRedis_Refund() {
	ctx, rdb, user := context.Background(), newClient(), newUser()
	defer rdb.Close()
	logins, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerHour(20))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := logins.AllowN(ctx, "login:"+user, 8); err != nil {
		log.Fatal(err)
	}

	for range 2 {
		result, err := logins.Refund(ctx, "login:"+user, 5)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("left:", result.Remaining)
	}
	// Output:
	// left: 17
	// left: 20
}
