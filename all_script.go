package ratelimit

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
)

//go:embed scripts/all.lua
var allLua string

// algorithms is all of them, in the order in which a script has them.
var algorithms = [...]Algorithm{TokenBucket, LeakyBucket, FixedWindow, SlidingWindowLog, SlidingWindowCounter}

// allScripts has a script for each set of algorithms: the smaller, the faster.
var allScripts = func() (scripts [1 << len(algorithms)]func() *script) {
	for set := range scripts {
		now := noClock
		for i, a := range algorithms {
			if set&(1<<i) != 0 && a.program().now == clock {
				now = clock
			}
		}
		scripts[set] = newScript(now, func() string { return composeAll(set) })
	}
	return scripts
}()

func composeAll(set int) string {
	var text strings.Builder
	text.WriteString("local looks, waits, puts = {}, {}, {}\n")
	n := 0
	for i, a := range algorithms {
		if set&(1<<i) != 0 {
			n++
			at := "[" + strconv.Itoa(n) + "]"
			text.WriteString("do\n" + *a.program().lua + "looks" + at + ", waits" + at + ", puts" + at + " = look, wait, put\nend\n")
		}
	}
	text.WriteString(allLua)
	return text.String()
}

// allScript is the script for some algorithms, and the number of each in it.
func allScript(some []Algorithm) (s *script, number map[Algorithm]int) {
	set, number := 0, make(map[Algorithm]int, len(some))
	for i, a := range algorithms {
		if slices.Contains(some, a) {
			set |= 1 << i
			number[a] = len(number) + 1
		}
	}
	return allScripts[set](), number
}
