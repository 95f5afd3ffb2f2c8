package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirgo/ratelimit"
)

// A config is what the page sets: the limit of all five, and the requests.
type config struct {
	Rate     int    `json:"rate"`
	PeriodMS int    `json:"period_ms"`
	Burst    int    `json:"burst"`
	Cost     int    `json:"cost"` // units a request
	Key      string `json:"key"`
}

var firstConfig = config{Rate: 10, PeriodMS: 2000, Burst: 0, Cost: 1, Key: "user:1"}

func (c config) limit() ratelimit.Limit {
	return ratelimit.Per(c.Rate, c.period()).WithBurst(c.Burst)
}

func (c config) period() time.Duration { return time.Duration(c.PeriodMS) * time.Millisecond }

// A bound is what a number must be within.
type bound struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

func (b bound) String() string { return fmt.Sprintf("%d to %d", b.Min, b.Max) }

// bounds has every number that the API takes. They keep the traffic, and what
// is remembered of it, small.
var bounds = map[string]bound{
	"rate":       {1, 100},
	"period_ms":  {200, 30_000},
	"burst":      {0, 100},
	"cost":       {1, 100},
	"per_second": {1, 200},
	"count":      {1, 100},
}

const keyRule = "1 to 64 letters, digits and any of . : @ _ -"

var validKey = regexp.MustCompile(`^[A-Za-z0-9.:@_-]{1,64}$`)

// A fieldError says what is wrong with a field of a request's body.
type fieldError struct {
	Field   string `json:"field"`
	Message string `json:"error"`
}

func (e *fieldError) Error() string { return e.Message }

func wrong(field string, value any) *fieldError {
	rule := keyRule
	switch b, isNumber := bounds[field]; {
	case isNumber:
		rule = b.String()
	case field == "mode":
		rule = "one of " + strings.Join(modes, ", ")
	}
	if value == nil { // not of the right type
		rule = map[bool]string{true: "a whole number, ", false: "a string, "}[bounds[field] != bound{}] + rule
		return &fieldError{field, fmt.Sprintf("%s must be %s", field, rule)}
	}
	return &fieldError{field, fmt.Sprintf("%s is %v, it must be %s", field, value, rule)}
}

// checkNumbers returns the first field, by name, that is out of its bounds.
func checkNumbers(fields map[string]int) error {
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if n := fields[field]; n < bounds[field].Min || n > bounds[field].Max {
			return wrong(field, n)
		}
	}
	return nil
}

func (c config) check() error {
	if !validKey.MatchString(c.Key) {
		return wrong("key", fmt.Sprintf("%.70q", c.Key))
	}
	return checkNumbers(map[string]int{
		"rate": c.Rate, "period_ms": c.PeriodMS, "burst": c.Burst, "cost": c.Cost,
	})
}
