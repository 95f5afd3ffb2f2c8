package main

import (
	"strings"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// mostWithin is the most requests that were surely decided within one period:
// a decision falls between the request and its answer.
func mostWithin(period time.Duration, admitted []*vegeta.Result) (most int) {
	for i, first := range admitted {
		n := 0
		for _, r := range admitted[i:] {
			if r.End().Sub(first.Timestamp) < period {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// bars draws how many were admitted in each 100 ms, two columns wide.
func bars(admitted []*vegeta.Result) string {
	const bin, bins = 100 * time.Millisecond, 13
	levels := []rune(" ▁▂▃▄▅▆▇█")
	var counts [bins]int
	for _, r := range admitted {
		at := r.Timestamp.Sub(admitted[0].Timestamp)
		counts[min(at/bin, bins-1)]++
	}
	var drawn strings.Builder
	for _, n := range counts {
		level := levels[min((n*8+19)/20, 8)] // of 20, rounded up
		drawn.WriteString(strings.Repeat(string(level), 2))
	}
	return drawn.String()
}
