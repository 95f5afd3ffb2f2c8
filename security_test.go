package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests that SECURITY.md names and that stand nowhere else.

// Every claim in SECURITY.md names tests, and these exist.
func TestSecurityNamesItsTests(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	for _, pattern := range []string{"*_test.go", "httplimit/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			tests.Write(text)
		}
	}
	text, err := os.ReadFile("SECURITY.md")
	require.NoError(t, err)
	claims := regexp.MustCompile(`(?m)^\| \**can.*\| (.*) \|$`).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(claims), 20)
	for _, claim := range claims {
		names := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z]+)`").FindAllStringSubmatch(claim[1], -1)
		require.NotEmpty(t, names, claim[0])
		for _, name := range names {
			require.Contains(t, tests.String(), "\nfunc "+name[1]+"(", claim[0])
		}
	}
}

// A key is only ever a name: what would be a pattern, a command, a piece of Lua
// or of another key anywhere else makes and removes one Redis key, its own.
func TestKeysAreOnlyNames(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, PerHour(10).WithBurst(10), func(t *testing.T, r *Redis) {
		_, err := r.Allow(t.Context(), "bystander")
		require.NoError(t, err)
		bystander := r.redisKey("bystander")
		for _, key := range []string{
			"*", "?", "[a-z]*", "bystande?", "\\*", "bystander ", "bystander\x00", "Bystander",
			"x\r\n*1\r\n$8\r\nFLUSHALL\r\n", "x\n", "\" .. redis.call('FLUSHALL') .. \"", "]] redis.call('FLUSHALL') --[[", "%s%n", "$(reboot)",
			"x}" + bystander, bystander, "} " + bystander, "{bystander}", "bystander}", "}{bystander}", "../bystander",
		} {
			for range 2 {
				result, err := r.Allow(t.Context(), key)
				require.NoError(t, err)
				require.True(t, result.Allowed)
			}
			require.ElementsMatch(t, []string{bystander, r.redisKey(key)}, keysOf(t, r), "%q", key)
			require.NoError(t, r.Reset(t.Context(), key))
			require.Equal(t, []string{bystander}, keysOf(t, r), "%q", key)
		}
		result, err := r.Peek(t.Context(), "bystander")
		require.NoError(t, err)
		require.Equal(t, result.Limit.capacity(r.algorithm)-1, result.Remaining)
	})
}

// Who chooses the key chooses its cluster slot, as with any key; a brace in it
// changes which, and not whose state it is.
func TestKeyChoosesItsSlot(t *testing.T) {
	t.Parallel()
	r := testLimiter(t, TokenBucket, "p")
	require.Equal(t, "user", clusterSlotTag(r.redisKey("user")))
	require.Equal(t, "user", clusterSlotTag(r.redisKey("user}1")))
	require.NotEqual(t, r.redisKey("user"), r.redisKey("user}1"))
}

// No n, however large, is taken for a small one, and none gives units back.
func TestContractOfN(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, s *subject) {
		*s.limit = PerHour(10).WithBurst(10)
		_, err := s.AllowN(t.Context(), "key", 3)
		require.NoError(t, err)
		state := func() int {
			r, err := s.Peek(t.Context(), "key")
			require.NoError(t, err)
			return r.Remaining
		}
		require.Equal(t, 7, state())
		for _, n := range []int{11, 1<<31 - 1, 1 << 31, 1<<32 + 1, 1 << 53, 1<<53 + 1, 1 << 62, math.MaxInt} {
			r, err := s.AllowN(t.Context(), "key", n)
			require.NoError(t, err)
			require.False(t, r.Allowed, n)
			require.Equal(t, Never, r.RetryAfter, n)
			require.Equal(t, 7, state(), n)
		}
		for _, n := range []int{0, -1, -3, -1 << 31, -1 << 32, -1<<53 - 1, math.MinInt + 1, math.MinInt} {
			_, err := s.AllowN(t.Context(), "key", n)
			require.ErrorIs(t, err, ErrInvalidN)
			require.Equal(t, 7, state(), n)
		}
	})
}

// Made-up keys cost Redis some hundred bytes each, however long they are, and all
// of them have a TTL.
func TestMadeUpKeysCostLittle(t *testing.T) {
	t.Parallel()
	const keys = 1000
	server := startServer(t)
	rdb := server.Client(t)
	used := func() int {
		text, err := server.info(t.Context(), "Memory", "used_memory")
		require.NoError(t, err)
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	for _, a := range allAlgorithms {
		for length, most := range map[int]int{36: 400, longestKey: 800, 1 << 14: 500} {
			r, err := newRedis(a, rdb, Per(5, time.Minute), nil)
			require.NoError(t, err)
			_, err = r.Peek(t.Context(), "key") // the script is loaded
			require.NoError(t, err)
			before := used()
			for i := range keys {
				_, err := r.Allow(t.Context(), strings.Repeat("x", length-8)+strconv.Itoa(10_000_000+i))
				require.NoError(t, err)
			}
			each := (used() - before) / keys
			t.Logf("%s, keys of %d bytes: %d bytes each", a, length, each)
			require.LessOrEqual(t, each, most)

			info, err := rdb.InfoMap(t.Context(), "keyspace").Result()
			require.NoError(t, err)
			require.Contains(t, info["Keyspace"]["db0"], fmt.Sprintf("keys=%d,expires=%d,", keys, keys), "a key without a TTL")
			require.NoError(t, rdb.FlushAll(t.Context()).Err()) // the server is this test's own
		}
	}
}

// However a key is used, it goes when its limit's time is up: nobody can make a
// limit, or a key, last.
func TestNoKeyLasts(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, Per(3, 200*time.Millisecond).WithBurst(3), func(t *testing.T, r *Redis) {
		for i := range 300 { // more than half of these are refused
			_, err := r.AllowN(t.Context(), "key", 1+i%4)
			require.NoError(t, err)
			left, err := r.rdb.PTTL(t.Context(), r.redisKey("key")).Result()
			require.NoError(t, err)
			require.NotEqual(t, time.Duration(-1), left, "no TTL") // -2: gone
			require.LessOrEqual(t, left, 401*time.Millisecond)
		}
		eventually(t, 10*time.Second, func(context.Context) error {
			if n := len(keysOf(t, r)); n > 0 {
				return errors.New("the key is still there")
			}
			return nil
		})
	})
}

// A flood of new keys beyond a Memory's bound makes it forget. It is the key that
// stops counting first: in a fixed window or a log the oldest, elsewhere one that
// has used little.
func TestFloodOfKeysInMemory(t *testing.T) {
	t.Parallel()
	for a, remembered := range map[Algorithm]bool{
		TokenBucket: true, LeakyBucket: true, SlidingWindowCounter: true,
		FixedWindow: false, SlidingWindowLog: false,
	} {
		m := newMemory(t, a, PerHour(10).WithBurst(10), WithMaxKeys(1000))
		r, err := m.AllowN(t.Context(), "spent", 10)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		time.Sleep(5 * time.Millisecond) // for Memory expires keys by the ms
		for i := range 2000 {
			_, err := m.Allow(t.Context(), strconv.Itoa(i))
			require.NoError(t, err)
		}
		require.Equal(t, 1000, m.Len())
		r, err = m.Allow(t.Context(), "spent")
		require.NoError(t, err)
		require.Equal(t, remembered, !r.Allowed, a)
	}
}
