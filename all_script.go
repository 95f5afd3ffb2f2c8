package ratelimit

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

var (
	//go:embed scripts/all.lua
	allLua string
	//go:embed scripts/few.lua
	fewLua string
)

// algorithms is all of them, in the order in which a script has them.
var algorithms = [...]Algorithm{TokenBucket, LeakyBucket, FixedWindow, SlidingWindowLog, SlidingWindowCounter}

// allScripts has a script for each set of algorithms, for more than few requests.
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
	l := newLua()
	rest := l.define(headLua, "")
	dispatch := map[string]*strings.Builder{"look": {}, "wait": {}, "put": {}}
	n := 0
	for i, a := range algorithms {
		if set&(1<<i) == 0 {
			continue
		}
		n++
		l.define(*a.program().lua, string(a)+"_")
		for name, calls := range allCalls {
			fmt.Fprintf(dispatch[name], "%sif algorithm == '%d' then\n%s = %s_%s(%s)\n", map[bool]string{true: "", false: "else"}[n == 1], n, calls.results, a, name, calls.parameters)
		}
	}
	for name, calls := range allCalls {
		l.functions[name] = &luaFunction{
			parameters: "algorithm, " + calls.parameters,
			body:       append([]string{"local " + calls.results}, strings.Split(dispatch[name].String()+"end", "\n")...),
			results:    calls.results,
		}
	}
	return l.inline(append(rest, l.define(allLua, "")...))
}

// allCalls are the functions of an algorithm, as all.lua calls them.
var allCalls = map[string]luaFunction{
	"look": {parameters: "i, rate, period, capacity", results: "free, w, x, y, z"},
	"wait": {parameters: "i, n, rate, period, capacity, w, x, y, z", results: "time"},
	"put":  {parameters: "i, n, rate, period, capacity, w, x, y, z", results: "reset, free"},
}

// few is how many requests are written out.
const few = 4

// fewScripts are those for up to few requests, each made at its first use.
var fewScripts sync.Map // of *script, by [few]Algorithm

func fewScript(some []Algorithm) *script {
	var key [few]Algorithm
	copy(key[:], some)
	if s, ok := fewScripts.Load(key); ok {
		return s.(*script) //nolint:forcetypeassert // it has no others
	}
	now := noClock
	for _, a := range some {
		if a.program().now == clock {
			now = clock
		}
	}
	s, _ := fewScripts.LoadOrStore(key, newScript(now, func() string { return composeFew(some) })())
	return s.(*script) //nolint:forcetypeassert // as above
}

// composeFew writes out few.lua, whose parts have a line that begins with -- between them.
func composeFew(some []Algorithm) string {
	l := newLua()
	lines := l.define(headLua, "")
	for _, a := range some {
		l.define(*a.program().lua, string(a)+"_")
	}
	parts := regexp.MustCompile(`(?m)^--.*\n(?:--.*\n)*`).Split(fewLua, -1)
	start, look, put, answer := parts[1], parts[2], parts[3], parts[4]
	each := func(part string) (written []string) {
		for i, a := range some {
			part := regexp.MustCompile(`(look|wait|put)\$`).ReplaceAllString(part, string(a)+"_$1")
			written = append(written, strings.TrimSpace(strings.ReplaceAll(part, "$", strconv.Itoa(i+1))))
		}
		return written
	}
	text := start + strings.Join(each(look), "\n") + "\n" + strings.Join(each(put), "\n") +
		"\nlocal reply = whole({ " + strings.Join(each(answer), ", ") + " })\nreturn reply\n"
	return l.inline(append(lines, l.define(text, "")...))
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
	if len(some) <= few {
		return fewScript(some), number
	}
	return allScripts[set](), number
}
