package interop

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

// A said is a Limiter that says what it is told to.
type said struct {
	ratelimit.Limiter

	result ratelimit.Result
}

func (s *said) AllowN(context.Context, string, int) (ratelimit.Result, error) { return s.result, nil }

// The fields of 1,000 random limits, names and decisions, several on one answer,
// are read by a parser of structured fields as they were meant.
func TestFieldsAreStructured(t *testing.T) {
	t.Parallel()
	const most = 999_999_999_999_999
	for range 1000 {
		names := []string{"a" + randomName(), "b" + randomName()}
		results := []ratelimit.Result{randomResult(), randomResult()}
		h := http.NotFoundHandler()
		for i, name := range slices.Backward(names) {
			h = httplimit.Middleware{Name: name, Limiter: &said{result: results[i]}, Key: httplimit.ByRemoteAddr}.Handler(h)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))

		policies, err := httpsfv.UnmarshalList(w.Header().Values("RateLimit-Policy"))
		require.NoError(t, err)
		states, err := httpsfv.UnmarshalList(w.Header().Values("RateLimit"))
		require.NoError(t, err)
		shown := 1
		if results[0].Allowed {
			shown = 2 // else the first refuses, and the second is not asked
		}
		require.Len(t, policies, shown)
		require.Len(t, states, shown)

		for i := range shown {
			limit := results[i].Limit
			policy, state := policies[i].(httpsfv.Item), states[i].(httpsfv.Item)
			require.Equal(t, names[i], policy.Value)
			require.Equal(t, names[i], state.Value)

			require.EqualValues(t, min(max(limit.Rate, limit.Burst), most), parameter(t, policy, "q"))
			require.GreaterOrEqual(t, parameter(t, policy, "w"), int64(1))

			left := parameter(t, state, "r")
			require.EqualValues(t, min(results[i].Remaining, most), left)
			require.Equal(t, left, parameter(t, state, "a"))
			wait := parameter(t, state, "t")
			require.GreaterOrEqual(t, wait, int64(1))
			require.Equal(t, wait, parameter(t, state, "w"))
		}
	}
}

func parameter(t *testing.T, item httpsfv.Item, key string) int64 {
	t.Helper()
	value, ok := item.Params.Get(key)
	require.True(t, ok, key)
	return value.(int64)
}

func randomName() string {
	name := make([]byte, rand.IntN(63))
	for i := range name {
		for name[i] = '"'; name[i] == '"' || name[i] == '\\'; {
			name[i] = byte(' ' + rand.IntN('~'-' '+1))
		}
	}
	return string(name)
}

func randomResult() ratelimit.Result {
	return ratelimit.Result{
		Allowed: rand.IntN(2) == 0,
		Limit: ratelimit.Limit{
			Rate:   1 + randomInt(math.MaxInt-1), // that would be Unlimited
			Period: time.Duration(1 + randomInt(math.MaxInt64)),
			Burst:  randomInt(math.MaxInt),
		},
		Remaining:  randomInt(math.MaxInt),
		RetryAfter: time.Duration(1 + randomInt(math.MaxInt64)),
		ResetAfter: time.Duration(1 + randomInt(math.MaxInt64)),
	}
}

// randomInt is 0 to below n, of any magnitude.
func randomInt(n int) int { return rand.IntN(n) >> rand.IntN(63) }

// Names that a structured field could not hold as they are never get that far.
func TestNamesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{`a"b`, `a\b`, "a\x00", "a\n", "a\x7f", "é", "\xff"} {
		m := httplimit.Middleware{Name: name, Limiter: &said{}, Key: httplimit.ByRemoteAddr}
		require.Panics(t, func() { m.Handler(http.NotFoundHandler()) }, "%q", name)
	}
}
