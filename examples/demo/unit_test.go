package main

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

// The tally claims only what is sure: a unit that began before the period, but
// may have been decided within it, does not count.
func TestTally(t *testing.T) {
	t.Parallel()
	const period = time.Second
	var tl tally
	require.Equal(t, 3, tl.add(100, 200, 3, period))
	require.Equal(t, 5, tl.add(500_000, 500_400, 2, period))
	require.Equal(t, 6, tl.add(1_000_000, 1_000_099, 1, period), "a period less 1 µs after the first began")
	require.Equal(t, 4, tl.add(1_000_000, 1_000_100, 1, period), "a period after the first began")
	require.Equal(t, 6, tl.most)
	require.Equal(t, 2, tl.within(1_999_999, period))
	require.Zero(t, tl.within(2_000_000, period))
	require.Equal(t, 6, tl.most)
}

func TestHistory(t *testing.T) {
	t.Parallel()
	const period = 300 * time.Millisecond
	h := newHistory(0)
	h.at(50_000, period).Allowed = 2
	h.tally.add(50_000, 50_000, 2, period)
	h.at(250_000, period).Refused = 1
	h.at(420_000, period)
	first, bins := h.last(5)
	require.EqualValues(t, 0, first)
	require.Equal(t, [][4]int{{2, 0, 0, 0}, {0, 0, 0, 2}, {0, 1, 0, 2}, {0, 0, 0, 2}, {}}, bins)

	h.at(3600e6, period) // an hour later all of it is gone
	_, bins = h.last(binsKept)
	require.Len(t, bins, binsKept)
	for _, b := range bins {
		require.Zero(t, b)
	}
	require.Empty(t, h.tally.units)
}

func TestStories(t *testing.T) {
	t.Parallel()
	c := config{Rate: 10, PeriodMS: 2000, Cost: 1}
	refused := ratelimit.Result{RetryAfter: 1234567 * time.Microsecond}
	for a, says := range map[ratelimit.Algorithm]string{
		ratelimit.TokenBucket:          "Refused: it takes 1 token and 0 are there; enough are back in 1.3 s.",
		ratelimit.LeakyBucket:          "Refused: 1 unit would overflow; enough has leaked in 1.3 s.",
		ratelimit.FixedWindow:          "Refused: 10 of 10 are taken in this window, which ends in 1.3 s.",
		ratelimit.SlidingWindowLog:     "Refused: 10 passed in the last 2 s; the oldest goes from the log in 1.3 s.",
		ratelimit.SlidingWindowCounter: "Refused: the estimate for the last 2 s is 10; it has fallen far enough in 1.3 s.",
	} {
		require.Equal(t, says, story(a, c, refused))
		require.Contains(t, surplus(a, c, 19), "19 passed within one period, the limit is 10")
	}
	for d, says := range map[time.Duration]string{
		time.Microsecond: "1 ms", 999 * time.Millisecond: "999 ms", time.Second: "1 s",
		1001 * time.Millisecond: "1.1 s", 30 * time.Second: "30 s",
	} {
		require.Equal(t, says, short(d))
	}
}

// What is read has the contrast of WCAG AA, in both color schemes.
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := static.ReadFile("static/style.css")
	require.NoError(t, err)
	light, rest, _ := strings.Cut(string(css), "prefers-color-scheme: dark")
	dark, _, _ := strings.Cut(rest, "* {")
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		colors := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`).FindAllStringSubmatch(text, -1) {
			colors[m[1]] = luminance(t, m[2])
		}
		for _, pair := range []struct {
			front, back string
			least       float64
		}{
			{"ink", "page", 7},
			{"ink", "card", 7},
			{"ink", "button", 4.5},
			{"ink", "refused-tint", 4.5},
			{"card", "ink", 4.5}, // a pressed button
			{"soft", "page", 4.5},
			{"soft", "card", 4.5},
			{"refused", "card", 4.5},
			{"refused", "page", 4.5},
			{"allowed", "card", 4.5},
			{"allowed", "page", 4.5},
			{"over", "over-tint", 4.5},
			{"over", "card", 4.5},
			{"card", "allowed", 4.5}, // the check mark
			{"control", "card", 3},
			{"control", "page", 3},
		} {
			require.Contains(t, colors, pair.front)
			require.Contains(t, colors, pair.back)
			high, low := max(colors[pair.front], colors[pair.back]), min(colors[pair.front], colors[pair.back])
			require.GreaterOrEqual(t, (high+0.05)/(low+0.05), pair.least, "%s: %s on %s", scheme, pair.front, pair.back)
		}
	}
}

// luminance is the relative luminance of an sRGB color, as WCAG 2 defines it.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		require.NoError(t, err)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// The page loads nothing but what is embedded.
func TestNoRemoteAssets(t *testing.T) {
	t.Parallel()
	entries, err := static.ReadDir("static")
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	remote := regexp.MustCompile(`(?i)(src|href|from|import|url)\s*[=(]?\s*['"(]?\s*(https?:)?//`)
	for _, entry := range entries {
		text, err := static.ReadFile("static/" + entry.Name())
		require.NoError(t, err)
		require.NotRegexp(t, remote, string(text), entry.Name())
	}
}
