package ratelimit

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func newMemory(tb testing.TB, a Algorithm, limits Limits, options ...MemoryOption) *Memory {
	tb.Helper()
	m, err := NewMemory(a, limits, options...)
	require.NoError(tb, err)
	return m
}

type planLimits struct{}

func (*planLimits) LimitFor(context.Context, string) (Limit, error) { return PerSecond(1), nil }

func TestNewMemoryChecks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		algorithm Algorithm
		limits    Limits
		maxKeys   int
		want      string
	}{
		{"bogus", PerSecond(1), 1, `no algorithm "bogus"`},
		{"", PerSecond(1), 1, `no algorithm ""`},
		{TokenBucket, PerSecond(1), 0, "the most keys are 0"},
		{TokenBucket, PerSecond(1), -1, "the most keys are -1"},
		{TokenBucket, nil, 1, "Limits are nil"},
		{TokenBucket, LimitFunc(nil), 1, "Limits are nil"},
		{TokenBucket, (*planLimits)(nil), 1, "Limits are nil"},
		{TokenBucket, Limit{}, 1, "zero Limit"},
	} {
		m, err := NewMemory(c.algorithm, c.limits, WithMaxKeys(c.maxKeys), nil)
		require.ErrorContains(t, err, c.want)
		require.Nil(t, m)
	}
}

// Ten million keys never take more room than the bound.
func TestMemoryKeepsItsBound(t *testing.T) {
	t.Parallel()
	const most = 100_000
	n := 10_000_000
	if raceEnabled {
		n /= 20
	}
	m := newMemory(t, TokenBucket, PerHour(1), WithMaxKeys(most))
	for i := range n {
		r, err := m.Allow(t.Context(), strconv.Itoa(i))
		require.NoError(t, err)
		require.True(t, r.Allowed)
		if i%10_000 == 0 {
			require.LessOrEqual(t, m.Len(), most)
		}
	}
	require.Equal(t, most, m.Len())
	require.Len(t, m.queue, most)
}

// Keys that no longer count make room first; of those that do, the one that
// would stop first.
func TestMemoryForgetsIdleKeysFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := map[string]Limit{}
		m := newMemory(t, TokenBucket, LimitFunc(func(_ context.Context, key string) (Limit, error) { return limits[key], nil }), WithMaxKeys(3))
		take := func(key string) {
			r, err := m.Allow(t.Context(), key)
			require.NoError(t, err)
			require.True(t, r.Allowed, key)
		}
		remembered := func(key string) bool {
			r, err := m.Peek(t.Context(), key)
			require.NoError(t, err)
			return !r.Allowed
		}
		for key, period := range map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour, "minute": time.Minute, "new": 2 * time.Hour, "newer": 3 * time.Hour} {
			limits[key] = Per(1, period)
		}
		take("hour")
		take("day")
		take("minute")
		time.Sleep(2 * time.Minute) // the minute no longer counts
		take("new")
		require.Equal(t, 3, m.Len())
		require.True(t, remembered("hour"))
		require.True(t, remembered("day"))
		require.True(t, remembered("new"))

		take("newer") // all count: the hour would stop first
		require.Equal(t, 3, m.Len())
		require.False(t, remembered("hour"))
		require.True(t, remembered("day"))
		require.True(t, remembered("new"))
		require.True(t, remembered("newer"))
	})
}

// What no longer counts goes while new keys come, also below the bound.
func TestMemorySweeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, FixedWindow, PerSecond(1))
		for i := range 1000 {
			_, err := m.Allow(t.Context(), strconv.Itoa(i))
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Second)
		for i := range 1000 {
			_, err := m.Allow(t.Context(), "new"+strconv.Itoa(i))
			require.NoError(t, err)
		}
		require.LessOrEqual(t, m.Len(), 1001)
	})
}

// A key kept must not keep a larger text alive that it was cut from, nor be as
// long as a caller likes.
func TestMemoryKeepsShortKeys(t *testing.T) {
	t.Parallel()
	m := newMemory(t, TokenBucket, PerHour(1))
	_, err := m.Allow(t.Context(), strings.Repeat("x", 1<<20))
	require.NoError(t, err)
	for key := range m.keys {
		require.Len(t, key, longestKey+32)
	}
}

// Refusals and peeks of keys never seen take no room.
func TestMemoryKeepsNothingForPeeks(t *testing.T) {
	t.Parallel()
	m := newMemory(t, SlidingWindowLog, PerHour(2))
	_, err := m.Peek(t.Context(), "a")
	require.NoError(t, err)
	_, err = m.AllowN(t.Context(), "b", 3)
	require.NoError(t, err)
	require.Zero(t, m.Len())
}

func TestMemoryIsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		m := newMemory(t, a, PerHour(1000).WithBurst(1000))
		var allowed atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 100 {
					if r, err := m.Allow(t.Context(), "key"); err == nil && r.Allowed {
						allowed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1000, allowed.Load(), a)
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, a := range allAlgorithms {
		b.Run(string(a), func(b *testing.B) {
			m := newMemory(b, a, PerSecond(1000))
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Allow(ctx, "user:12345"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("keys_1000000", func(b *testing.B) {
		m := newMemory(b, TokenBucket, PerHour(1000))
		keys := make([]string, 1_000_000)
		for i := range keys {
			keys[i] = "user:" + strconv.Itoa(i)
		}
		ctx := b.Context()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := m.Allow(ctx, keys[i*7919%len(keys)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("new_keys", func(b *testing.B) {
		m := newMemory(b, TokenBucket, PerHour(1), WithMaxKeys(100_000))
		ctx := b.Context()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := m.Allow(ctx, strconv.Itoa(i)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
