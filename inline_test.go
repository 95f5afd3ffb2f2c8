package ratelimit

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What Redis runs has no call that was not written out, and makes one function
// at most. With RATELIMIT_SCRIPTS the scripts are written to that directory.
func TestScriptsAreWhole(t *testing.T) {
	t.Parallel()
	scripts := map[string]*script{}
	for _, a := range allAlgorithms {
		p := a.program()
		scripts[string(a)], scripts[string(a)+"_batch"], scripts[string(a)+"_reserve"] = p.decide(), p.batch(), p.reserve()
	}
	scripts["all"], _ = allScript(allAlgorithms)
	scripts["few"], _ = allScript([]Algorithm{SlidingWindowLog, TokenBucket, LeakyBucket, TokenBucket})
	scripts["two"], _ = allScript([]Algorithm{FixedWindow, SlidingWindowCounter})
	places := [...]Algorithm{TokenBucket, LeakyBucket, FixedWindow, SlidingWindowLog, SlidingWindowCounter}
	require.Equal(t, places, algorithms, "trace.lua knows them by these")

	texts := []string{headLua, decideLua, oneLua, batchLua, reserveLua}
	for _, a := range allAlgorithms {
		texts = append(texts, *a.program().lua)
	}
	text := strings.Join(texts, "")
	defined := regexp.MustCompile(`(?m)^local function (\w+)`).FindAllStringSubmatch(text, -1)
	require.Greater(t, len(defined), 15)
	for name, s := range scripts {
		for _, d := range defined {
			require.NotRegexp(t, `(^|[^\w.])`+d[1]+`\(`, s.text, "%s calls %s", name, d[1])
		}
		functions := regexp.MustCompile(`\bfunction\b`).FindAllString(s.text, -1)
		require.LessOrEqual(t, len(functions), 1, name)
		if directory := os.Getenv("RATELIMIT_SCRIPTS"); directory != "" {
			require.NoError(t, os.WriteFile(filepath.Join(directory, name+".lua"), []byte(s.text), 0o600))
		}
	}
}

// What a function returns goes straight to where it is wanted, and parameters are
// what they are called with, unless names would be mixed up.
func TestInlined(t *testing.T) {
	t.Parallel()
	require.Equal(t, `local a, b = 1, 2
local r1_1, r1_2
do
local b, a = a, b
  local c = a
do
c = c + 1
end
r1_1, r1_2 = c, b
end
a, b = r1_1, r1_2
local d
do
  local e = a
  if b > 1 then
    e = e + 2 * b
  end
d = e
end
do
local y = b
  y = y + 1
a = y
end
local function f(x)
return x + 1
end
return pcall(f, a)
`, inlined(`-- Not this.
local function more(x)
  return x + 1
end
local function twist(b, a)
  local c = a
  c = more(c)
  return c, b
end
local function twice(x, y)
  -- Nor this.
  local e = x
  if y > 1 then
    e = e + 2 * y
  end
  return e
end
local function next(y)
  y = y + 1
  return y
end
local a, b = 1, 2
a, b = twist(a, b)
local d = twice(a, b)
a = next(b)
local f = more
return pcall(f, a)
`))
}
