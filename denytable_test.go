package ratelimit

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// kept is what a cache remembers, ended or not.
func kept(c *DenyCache) (denials []*denial) {
	t := c.denials()
	for i := range t.slots {
		if d := t.slots[i].Load(); d != nil {
			denials = append(denials, d)
		}
	}
	return denials
}

// However many keys are refused, no more than MaxKeys are kept, and of those
// as many as there is room for.
func TestDenyCacheKeepsItsBound(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 7, 8, 9, 100, 10_000} {
		c := &DenyCache{Limiter: refusing(time.Hour), MaxKeys: most}
		for i := range 2 * most {
			_, err := c.Allow(t.Context(), strconv.Itoa(i))
			require.NoError(t, err)
		}
		n := len(kept(c))
		require.LessOrEqual(t, n, most)
		require.GreaterOrEqual(t, n, most*3/4-1)
	}
	for _, none := range []int{0, -1} {
		c := &DenyCache{MaxKeys: none}
		require.Len(t, c.denials().slots, defaultDenyKeys)
	}
}

// Below half its bound hardly a key is forgotten.
func TestDenyCacheHasRoom(t *testing.T) {
	t.Parallel()
	const keys = defaultDenyKeys / 2
	limiter := &asked{Limiter: refusing(time.Hour)}
	c := &DenyCache{Limiter: limiter}
	for range 2 {
		for i := range keys {
			_, err := c.Allow(t.Context(), strconv.Itoa(i))
			require.NoError(t, err)
		}
	}
	require.Less(t, limiter.calls.Load(), int64(keys*110/100))
}

// Where room is short, what has ended goes first, then what ends first.
func TestDenyCacheForgetsWhatEndsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := LimitFunc(func(_ context.Context, key string) (Limit, error) {
			hours, err := strconv.Atoi(key)
			return Per(1, time.Duration(hours)*time.Hour), err
		})
		m := newMemory(t, FixedWindow, limits)
		c := &DenyCache{Limiter: m, MaxKeys: 3}
		refuse := func(keys ...string) {
			for _, key := range keys {
				for range 2 {
					_, err := c.Allow(t.Context(), key)
					require.NoError(t, err)
				}
			}
		}
		remembered := func() (keys []string) {
			for _, d := range kept(c) {
				keys = append(keys, d.key)
			}
			return keys
		}
		refuse("3", "9", "7")
		require.Equal(t, []string{"3", "9", "7"}, remembered())
		refuse("8")
		require.Equal(t, []string{"8", "9", "7"}, remembered())
		refuse("2")
		require.Equal(t, []string{"8", "9", "2"}, remembered())
		time.Sleep(3 * time.Hour)
		refuse("1")
		require.Equal(t, []string{"8", "9", "1"}, remembered())
	})
}

// What has ended leaves while others come, and with the call that is allowed.
func TestDenyCacheSweeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &DenyCache{Limiter: refusing(time.Second), MaxKeys: 10_000}
		for i := range 5000 {
			_, err := c.Allow(t.Context(), strconv.Itoa(i))
			require.NoError(t, err)
		}
		require.Greater(t, len(kept(c)), 4500)
		time.Sleep(time.Second)
		for i := range 5000 {
			_, err := c.Allow(t.Context(), "new "+strconv.Itoa(i))
			require.NoError(t, err)
		}
		now := c.denials().now()
		for _, d := range kept(c) {
			require.Greater(t, d.ends, now, "%s lingers", d.key)
		}

		c = &DenyCache{Limiter: newMemory(t, TokenBucket, PerSecond(1))}
		for range 2 {
			_, err := c.Allow(t.Context(), "key")
			require.NoError(t, err)
		}
		require.Len(t, kept(c), 1)
		time.Sleep(time.Second)
		_, err := c.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.Empty(t, kept(c))
	})
}

// No key takes more room than a caller may have, nor holds on to a larger text
// that it was cut from.
func TestDenyCacheKeepsShortKeys(t *testing.T) {
	t.Parallel()
	c := &DenyCache{Limiter: refusing(time.Hour)}
	_, err := c.Allow(t.Context(), strings.Repeat("x", 1<<20))
	require.NoError(t, err)
	require.Len(t, kept(c)[0].key, longestKey+32)
}

// A call that was allowed makes forget what it saw, not what has come since.
func TestDenyTableKeepsWhatHasComeSince(t *testing.T) {
	t.Parallel()
	table := newDenyTable(10)
	r := refusing(time.Hour).result
	first := table.begin("key")
	table.remember(first, 5, r)
	second := table.begin("key")
	require.NotNil(t, second.seen)
	table.remember(second, 3, r)
	table.allowed(second)
	third := table.begin("key")
	require.NotNil(t, third.seen)
	table.allowed(third)
	require.Nil(t, table.begin("key").seen)
}

// What is refused here allocates nothing.
func TestDenyCacheAllocatesNothing(t *testing.T) {
	c, ctx, key := &DenyCache{Limiter: refusing(time.Hour)}, t.Context(), strings.Repeat("x", longestKey)
	_, err := c.Allow(ctx, key)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = c.Allow(ctx, key)
		_, _ = c.AllowN(ctx, key, 5)
		_, _ = c.Peek(ctx, key)
	}))
}

// Nor does it take long: the best of many short runs, as others use the machine.
func TestDenyCacheIsQuick(t *testing.T) {
	most := 200 * time.Nanosecond
	if raceEnabled {
		most *= 20
	}
	c, ctx, best := &DenyCache{Limiter: refusing(time.Hour)}, t.Context(), time.Hour
	for range 200 {
		const calls = 1000
		began := time.Now()
		for range calls {
			_, _ = c.Allow(ctx, "user:12345")
		}
		best = min(best, time.Since(began)/calls)
	}
	require.LessOrEqual(t, best, most)
	t.Logf("%v a refused call", best)
}
