package httplimit

import (
	"math"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

func TestFields(t *testing.T) {
	t.Parallel()
	minute := ratelimit.PerMinute(100)
	allowed := func(l ratelimit.Limit, remaining int, reset time.Duration) ratelimit.Result {
		return ratelimit.Result{Allowed: true, Limit: l, Remaining: remaining, ResetAfter: reset}
	}
	denied := func(l ratelimit.Limit, remaining int, retry, reset time.Duration) ratelimit.Result {
		return ratelimit.Result{Limit: l, Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
	}
	for name, test := range map[string]struct {
		result               ratelimit.Result
		policy, state, after string
	}{
		"allowed":           {allowed(minute, 42, 34001*time.Millisecond), `"x";q=100;w=60`, `"x";r=42;t=35;a=42;w=35`, ""},
		"whole seconds":     {allowed(minute, 42, 35*time.Second), `"x";q=100;w=60`, `"x";r=42;t=35;a=42;w=35`, ""},
		"unused":            {allowed(minute, 100, 0), `"x";q=100;w=60`, `"x";r=100;a=100`, ""},
		"denied":            {denied(minute, 0, 400*time.Millisecond, time.Minute), `"x";q=100;w=60`, `"x";r=0;t=1;a=0;w=1`, "1"},
		"a microsecond":     {denied(minute, 0, time.Microsecond, time.Minute), `"x";q=100;w=60`, `"x";r=0;t=1;a=0;w=1`, "1"},
		"just over":         {denied(minute, 3, 2*time.Second+1, time.Minute), `"x";q=100;w=60`, `"x";r=3;t=3;a=3;w=3`, "3"},
		"costs too much":    {denied(minute, 97, ratelimit.Never, 2*time.Second), `"x";q=100;w=60`, `"x";r=97;t=2;a=97;w=2`, ""},
		"blocked":           {denied(ratelimit.Per(0, time.Minute), 0, ratelimit.Never, 0), `"x";q=0;w=60`, `"x";r=0;a=0`, ""},
		"unlimited":         {allowed(ratelimit.Unlimited, math.MaxInt, 0), "", "", ""},
		"burst":             {allowed(minute.WithBurst(20), 19, time.Second), `"x";q=100;w=60`, `"x";r=19;t=1;a=19;w=1`, ""},
		"burst over rate":   {allowed(minute.WithBurst(500), 499, time.Second), `"x";q=500;w=300`, `"x";r=499;t=1;a=499;w=1`, ""},
		"burst, rounded":    {allowed(ratelimit.PerSecond(3).WithBurst(10), 9, time.Second), `"x";q=10;w=4`, `"x";r=9;t=1;a=9;w=1`, ""},
		"short period":      {allowed(ratelimit.Per(10, 100*time.Millisecond), 9, time.Millisecond), `"x";q=10;w=1`, `"x";r=9;t=1;a=9;w=1`, ""},
		"odd period":        {allowed(ratelimit.Per(3, 1500*time.Millisecond), 2, time.Second), `"x";q=3;w=2`, `"x";r=2;t=1;a=2;w=1`, ""},
		"longest":           {allowed(ratelimit.Per(1, 366*24*time.Hour), 0, 366*24*time.Hour), `"x";q=1;w=31622400`, `"x";r=0;t=31622400;a=0;w=31622400`, ""},
		"unknown limit":     {allowed(ratelimit.Limit{}, 5, time.Second), "", `"x";r=5;t=1;a=5;w=1`, ""},
		"denied, no wait":   {denied(minute, 0, 0, 0), `"x";q=100;w=60`, `"x";r=0;t=1;a=0;w=1`, "1"},
		"out of all bounds": {allowed(ratelimit.Limit{Rate: 1, Period: math.MaxInt64, Burst: math.MaxInt}, math.MaxInt, math.MaxInt64), `"x";q=999999999999999;w=999999999999999`, `"x";r=999999999999999;t=9223372037;a=999999999999999;w=9223372037`, ""},
		"negative":          {allowed(ratelimit.Limit{Rate: -1, Period: -1, Burst: -1}, -1, -1), `"x";q=0`, `"x";r=0;a=0`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := make(http.Header)
			addFields(h, "x", test.result)
			require.Equal(t, test.policy, h.Get("RateLimit-Policy"))
			require.Equal(t, test.state, h.Get("RateLimit"))
			after, ok := retryAfter(test.result)
			require.Equal(t, test.after != "", ok)
			if ok {
				require.Equal(t, test.after, string(appendParameter(nil, "", after)))
			}
		})
	}
}

func TestFieldsAreAdded(t *testing.T) {
	t.Parallel()
	h := make(http.Header)
	names := []string{"day", "hour", "minute"}
	for i, name := range names {
		addFields(h, name, ratelimit.Result{Allowed: true, Limit: ratelimit.PerDay(i + 1), Remaining: i})
	}
	require.Equal(t, []string{`"day";q=1;w=86400`, `"hour";q=2;w=86400`, `"minute";q=3;w=86400`}, h.Values("RateLimit-Policy"))
	require.Equal(t, []string{`"day";r=0;a=0`, `"hour";r=1;a=1`, `"minute";r=2;a=2`}, h.Values("RateLimit"))
	require.Len(t, h, 2)
}

func TestLegacyFields(t *testing.T) {
	t.Parallel()
	hour := ratelimit.PerHour(50)
	loose := ratelimit.Result{Allowed: true, Limit: hour, Remaining: 40, ResetAfter: 90 * time.Second}
	tight := ratelimit.Result{Allowed: true, Limit: ratelimit.PerSecond(5).WithBurst(10), Remaining: 3, ResetAfter: 700 * time.Millisecond}
	denied := ratelimit.Result{Limit: hour, Remaining: 7, RetryAfter: 12 * time.Second, ResetAfter: time.Hour}
	unlimited := ratelimit.Result{Allowed: true, Limit: ratelimit.Unlimited, Remaining: math.MaxInt}

	for name, test := range map[string]struct {
		results                 []ratelimit.Result
		limit, remaining, reset string
	}{
		"one":               {[]ratelimit.Result{loose}, "50", "40", "90"},
		"a burst":           {[]ratelimit.Result{tight}, "10", "3", "1"},
		"tight after loose": {[]ratelimit.Result{loose, tight}, "10", "3", "1"},
		"loose after tight": {[]ratelimit.Result{tight, loose}, "10", "3", "1"},
		"denied":            {[]ratelimit.Result{tight, denied}, "50", "7", "12"},
		"unlimited":         {[]ratelimit.Result{unlimited}, "", "", ""},
		"unlimited after":   {[]ratelimit.Result{tight, unlimited}, "10", "3", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := make(http.Header)
			for _, result := range test.results {
				setLegacyFields(h, result)
			}
			require.Equal(t, test.limit, h.Get("X-RateLimit-Limit"))
			require.Equal(t, test.remaining, h.Get("X-RateLimit-Remaining"))
			require.Equal(t, test.reset, h.Get("X-RateLimit-Reset"))
		})
	}
	t.Run("not a number", func(t *testing.T) {
		t.Parallel()
		h := http.Header{legacyRemaining: {"many"}}
		setLegacyFields(h, loose)
		require.Equal(t, []string{"40"}, h.Values("X-RateLimit-Remaining"))
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "default", "GET /items/{id}", "a,b;c=d", "~!'", strings.Repeat("n", 64)} {
		require.NoError(t, checkName(name), "%q", name)
	}
	for c := range 256 {
		bad := c < ' ' || c > '~' || c == '"' || c == '\\'
		require.Equal(t, bad, checkName("a"+string([]byte{byte(c)})+"z") != nil, "%q", rune(c))
	}
	for _, name := range []string{"é", "名", "\u00a0", "a\r\nSet-Cookie: b=c", strings.Repeat("n", 65)} {
		require.Error(t, checkName(name), "%q", name)
	}
}

var (
	policyText = regexp.MustCompile(`^"[ !#-\[\]-~]{1,64}";q=\d{1,15}(;w=[1-9]\d{0,14})?$`)
	stateText  = regexp.MustCompile(`^"[ !#-\[\]-~]{1,64}";r=(\d{1,15})(;t=[1-9]\d{0,14})?;a=(\d{1,15})(;w=[1-9]\d{0,14})?$`)
)

// Whatever a Limiter returns, the fields are what the grammar allows, no more
// units than quota are left within the bounds of the library, and nobody is told
// to wait for longer by t than by Retry-After.
func FuzzFields(f *testing.F) {
	f.Add("default", true, 100, int64(time.Minute), 0, 99, int64(0), int64(600*time.Millisecond))
	f.Add("a b", false, 1, int64(1), 1<<40, 0, int64(ratelimit.Never), int64(ratelimit.Never))
	f.Add("x", false, math.MaxInt-1, int64(math.MinInt64), math.MinInt, math.MinInt, int64(math.MinInt64), int64(math.MinInt64))
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		f.Add("n", rng.IntN(2) == 0, int(rng.Uint64()>>rng.IntN(64)), int64(rng.Uint64()>>rng.IntN(64)), int(rng.Uint64()>>rng.IntN(64)),
			int(rng.Uint64()>>rng.IntN(64)), int64(rng.Uint64()>>rng.IntN(64)), int64(rng.Uint64()>>rng.IntN(64)))
	}
	f.Fuzz(func(t *testing.T, name string, allowed bool, rate int, period int64, burst, remaining int, retry, reset int64) {
		if name == "" || checkName(name) != nil {
			return
		}
		result := ratelimit.Result{
			Allowed:    allowed,
			Limit:      ratelimit.Limit{Rate: rate, Period: time.Duration(period), Burst: burst},
			Remaining:  remaining,
			RetryAfter: time.Duration(retry),
			ResetAfter: time.Duration(reset),
		}
		h := make(http.Header)
		addFields(h, name, result)
		setLegacyFields(h, result)
		if rate == math.MaxInt {
			require.Empty(t, h)
			return
		}
		if result.Limit != (ratelimit.Limit{}) {
			require.Regexp(t, policyText, h.Get("RateLimit-Policy"))
		}
		require.Regexp(t, stateText, h.Get("RateLimit"))

		parts := stateText.FindStringSubmatch(h.Get("RateLimit"))
		require.Equal(t, parts[1], parts[3])
		require.Equal(t, strings.Replace(parts[2], ";t=", ";w=", 1), parts[4])
		if after, ok := retryAfter(result); ok {
			require.Equal(t, string(appendParameter(nil, ";t=", after)), parts[2])
			require.GreaterOrEqual(t, after, int64(1))
			require.GreaterOrEqual(t, float64(after)*1e9, float64(retry))
		}

		q, w := quota(result.Limit)
		require.GreaterOrEqual(t, q, int64(0))
		require.GreaterOrEqual(t, w, int64(0))
		if rate > 0 && period > 0 && w < largest {
			require.Equal(t, int64(max(rate, burst)), q)
			exact := float64(q) * float64(period) / float64(rate) / 1e9
			require.InDelta(t, exact, float64(w), 1+exact*1e-9)
		}
	})
}
