package main

import (
	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

// An algorithm is one of the five, as the page introduces it.
type algorithm struct {
	ID          ratelimit.Algorithm `json:"id"`
	Title       string              `json:"title"`
	Constructor string              `json:"constructor"`
	Rule        string              `json:"rule"`
	Level       string              `json:"level"` // what its gauge shows

	make func(redis.UniversalClient, ratelimit.Limits, ...ratelimit.Option) (*ratelimit.Redis, error)
}

var algorithms = []algorithm{
	{
		ID: ratelimit.TokenBucket, Title: "Token bucket", Constructor: "NewTokenBucket",
		Rule: "A bucket of tokens that refills continuously, up to the burst. " +
			"A request takes a token for each unit, or is refused.",
		Level: "tokens", make: ratelimit.NewTokenBucket,
	},
	{
		ID: ratelimit.LeakyBucket, Title: "Leaky bucket", Constructor: "NewLeakyBucket",
		Rule: "A bucket that leaks continuously. A request pours its units in, and is refused " +
			"if they would overflow; with room for one, requests are strictly paced.",
		Level: "in the bucket", make: ratelimit.NewLeakyBucket,
	},
	{
		ID: ratelimit.FixedWindow, Title: "Fixed window", Constructor: "NewFixedWindow",
		Rule: "A counter that starts with the first request and is forgotten a period later. " +
			"Nothing remembers what passed just before.",
		Level: "in this window", make: ratelimit.NewFixedWindow,
	},
	{
		ID: ratelimit.SlidingWindowLog, Title: "Sliding window log", Constructor: "NewSlidingWindowLog",
		Rule: "The time of every unit let through is on a list. A request passes if, with it, " +
			"the last period holds no more than the rate. Exact.",
		Level: "entries in the log", make: ratelimit.NewSlidingWindowLog,
	},
	{
		ID: ratelimit.SlidingWindowCounter, Title: "Sliding window counter", Constructor: "NewSlidingWindowCounter",
		Rule: "Two counters: this window's, and the last one's weighted by how much of it " +
			"is less than a period ago. An estimate of the log, in three numbers.",
		Level: "by estimate", make: ratelimit.NewSlidingWindowCounter,
	},
}
