package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weirgo/ratelimit"
)

// story says in a sentence or two how the algorithm came to its decision.
func story(a ratelimit.Algorithm, c config, r ratelimit.Result) string {
	if r.RetryAfter == ratelimit.Never {
		return fmt.Sprintf("Refused for good: %s, and no more than %d ever pass at once.", units(c.Cost), capacity(a, c))
	}
	if r.Allowed {
		return allowedStory(a, c, r)
	}
	wait, period := short(r.RetryAfter), short(c.period())
	switch a {
	case ratelimit.TokenBucket:
		return fmt.Sprintf("Refused: it takes %s and %d are there; enough are back in %s.", tokens(c.Cost), r.Remaining, wait)
	case ratelimit.LeakyBucket:
		return fmt.Sprintf("Refused: %s would overflow; enough has leaked in %s.", units(c.Cost), wait)
	case ratelimit.FixedWindow:
		return fmt.Sprintf("Refused: %d of %d are taken in this window, which ends in %s.", c.Rate-r.Remaining, c.Rate, wait)
	case ratelimit.SlidingWindowLog:
		return fmt.Sprintf("Refused: %d passed in the last %s; the oldest %s from the log in %s.",
			c.Rate-r.Remaining, period, map[bool]string{true: "goes", false: "go"}[c.Cost == 1], wait)
	default:
		return fmt.Sprintf("Refused: the estimate for the last %s is %d; it has fallen far enough in %s.",
			period, c.Rate-r.Remaining, wait)
	}
}

func allowedStory(a ratelimit.Algorithm, c config, r ratelimit.Result) string {
	taken, period := c.Rate-r.Remaining, short(c.period())
	switch a {
	case ratelimit.TokenBucket:
		return fmt.Sprintf("Allowed: took %s, %d left.", tokens(c.Cost), r.Remaining)
	case ratelimit.LeakyBucket:
		if r.Remaining == 0 {
			return "Allowed: it fits, and the bucket is full."
		}
		return fmt.Sprintf("Allowed: it fits, with room for %d more.", r.Remaining)
	case ratelimit.FixedWindow:
		if taken == c.Cost {
			return fmt.Sprintf("Allowed: a new window begins, and ends in %s.", short(r.ResetAfter))
		}
		return fmt.Sprintf("Allowed: %d of %d in this window, which ends in %s.", taken, c.Rate, short(r.ResetAfter))
	case ratelimit.SlidingWindowLog:
		return fmt.Sprintf("Allowed: with it %d of %d in the last %s.", taken, c.Rate, period)
	default:
		return fmt.Sprintf("Allowed: by estimate %d of %d in the last %s.", taken, c.Rate, period)
	}
}

// surplus says how more units than the rate came to pass in one period.
func surplus(a ratelimit.Algorithm, c config, passed int) string {
	what := fmt.Sprintf("%d passed within one period, the limit is %d", passed, c.Rate)
	switch a {
	case ratelimit.TokenBucket:
		return fmt.Sprintf("Burst and refill: %s. A full bucket of %d went, and what came back meanwhile.", what, capacity(a, c))
	case ratelimit.LeakyBucket:
		return fmt.Sprintf("Room for %d: %s. They filled the bucket, and what leaked made room.", capacity(a, c), what)
	case ratelimit.FixedWindow:
		return "Window boundary: " + what + ". The new window knows nothing of the one before."
	case ratelimit.SlidingWindowCounter:
		return "Estimate: " + what + ". It takes the last window for even, and it was not."
	default:
		return "Over: " + what + "."
	}
}

// capacity is the most units that pass at once.
func capacity(a ratelimit.Algorithm, c config) int {
	switch {
	case a == ratelimit.LeakyBucket && c.Burst == 0:
		return 1
	case a == ratelimit.LeakyBucket, a == ratelimit.TokenBucket && c.Burst != 0:
		return c.Burst
	}
	return c.Rate
}

func units(n int) string  { return count(n, "unit") }
func tokens(n int) string { return count(n, "token") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// short is d as one reads it: 340 ms, 1.7 s.
func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", (d + time.Millisecond - 1).Milliseconds())
	}
	return strconv.FormatFloat(float64((d+99*time.Millisecond)/(100*time.Millisecond))/10, 'f', -1, 64) + " s"
}
