package ratelimit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// The contract that every Limiter keeps. A subject is a Limiter under test, of
// one algorithm, in which time passes only when it is told to.
type subject struct {
	Limiter
	algorithm Algorithm
	limit     *Limit               // what its LimitFunc answers
	pass      func(time.Duration)  // lets time pass
	drift     func() time.Duration // by how much time went on by itself
}

// contract runs f for all algorithms, in Redis and in memory.
func contract(t *testing.T, f func(t *testing.T, s *subject)) {
	t.Helper()
	for _, a := range allAlgorithms {
		t.Run(string(a)+"/redis", func(t *testing.T) {
			t.Parallel()
			f(t, redisSubject(t, a))
		})
		t.Run(string(a)+"/redis, apart", func(t *testing.T) {
			t.Parallel()
			f(t, redisSubject(t, a, WithoutCoalescing()))
		})
		t.Run(string(a)+"/memory", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(t, memorySubject(t, a)) })
		})
	}
}

func memorySubject(t *testing.T, a Algorithm) *subject {
	t.Helper()
	limit := Per(10, 10*time.Second)
	m, err := NewMemory(a, LimitFunc(func(context.Context, string) (Limit, error) { return limit, nil }))
	require.NoError(t, err)
	return &subject{
		Limiter: m, algorithm: a, limit: &limit,
		pass:  time.Sleep,
		drift: func() time.Duration { return 0 },
	}
}

// redisSubject passes the script a time. The fixed window takes its time from
// the TTL, so the TTLs are moved with it.
func redisSubject(t *testing.T, a Algorithm, options ...Option) *subject {
	t.Helper()
	limit, rdb := Per(10, 10*time.Second), sharedRedis(t)
	r, err := newRedis(a, rdb, LimitFunc(func(context.Context, string) (Limit, error) { return limit, nil }),
		append(options, WithPrefix(uniqueKey(t))))
	require.NoError(t, err)
	s, now := *r.script, time.UnixMicro(1_800_000_000_000_000)
	batch, reserves := *r.batch, *r.reserves
	r.script, r.batch, r.reserves = &s, &batch, &reserves
	began := serverTime(t, rdb)
	subject := &subject{
		Limiter: r, algorithm: a, limit: &limit,
		drift: func() time.Duration { return 0 },
	}
	if a == FixedWindow {
		subject.drift = func() time.Duration { return serverTime(t, rdb).Sub(began) + time.Millisecond }
	} else {
		s.now = strconv.FormatInt(now.UnixMicro(), 10)
		batch.now, reserves.now = s.now, s.now
	}
	subject.pass = func(d time.Duration) {
		now = now.Add(d)
		if a != FixedWindow {
			s.now = strconv.FormatInt(now.UnixMicro(), 10)
			batch.now, reserves.now = s.now, s.now
			d -= time.Second // the TTL must not end before the state, for real time passes too
		}
		for _, key := range keysOf(t, r) {
			left, err := rdb.PTTL(t.Context(), key).Result()
			require.NoError(t, err)
			require.NoError(t, rdb.PExpire(t.Context(), key, left-d).Err())
		}
	}
	return subject
}

func serverTime(t *testing.T, rdb *redis.Client) time.Time {
	t.Helper()
	now, err := rdb.Time(t.Context()).Result()
	require.NoError(t, err)
	return now
}

// keysOf is all keys that a limiter with a prefix of its own keeps.
func keysOf(t *testing.T, r *Redis) []string {
	t.Helper()
	var keys []string
	for scan := sharedRedis(t).Scan(t.Context(), 0, r.prefix+"*", 10_000).Iterator(); scan.Next(t.Context()); {
		keys = append(keys, scan.Val())
	}
	return keys
}

// uniqueKey is a key, or a prefix, that no other test has.
func uniqueKey(testing.TB) string { return "test-" + strconv.FormatUint(rand.Uint64(), 36) }

// eachAlgorithm runs f for all algorithms, with a limiter in Redis that has a
// prefix of its own.
func eachAlgorithm(t *testing.T, limits Limits, f func(t *testing.T, r *Redis)) {
	t.Helper()
	for _, a := range allAlgorithms {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			r, err := newRedis(a, sharedRedis(t), limits, []Option{WithPrefix(uniqueKey(t))})
			require.NoError(t, err)
			f(t, r)
		})
	}
}

func TestContractOfBadInput(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, s *subject) {
		for _, n := range []int{0, -1, -5, math.MinInt} {
			_, err := s.AllowN(t.Context(), "key", n)
			require.ErrorIs(t, err, ErrInvalidN)
			require.ErrorContains(t, err, strconv.Itoa(n))
			require.ErrorContains(t, err, string(s.algorithm)+`: key "key"`)
		}
		_, err := s.Allow(t.Context(), "")
		require.ErrorIs(t, err, ErrInvalidKey)
		_, err = s.Peek(t.Context(), "")
		require.ErrorIs(t, err, ErrInvalidKey)
		require.ErrorIs(t, s.Reset(t.Context(), ""), ErrInvalidKey)

		valid := *s.limit
		for _, l := range invalidLimits(s.algorithm) {
			*s.limit = l
			_, err := s.Allow(t.Context(), "key")
			require.ErrorIs(t, err, ErrInvalidLimit, "%+v", l)
			_, err = s.Peek(t.Context(), "key")
			require.ErrorIs(t, err, ErrInvalidLimit, "%+v", l)
		}

		// Nothing was charged by any of it.
		*s.limit = valid
		r, err := s.Peek(t.Context(), "key")
		require.NoError(t, err)
		require.Equal(t, valid.capacity(s.algorithm), r.Remaining)
		require.Zero(t, r.ResetAfter)
	})
}

// invalidLimits has one limit for each bound that a can break, and each names
// its field.
func invalidLimits(a Algorithm) []Limit {
	limits := []Limit{
		{},
		{Burst: 5},
		{Rate: 5},
		{Rate: -1, Period: sec},
		{Rate: maxUnits + 1, Period: sec},
		{Rate: math.MaxInt - 1, Period: sec},
		{Rate: 1, Period: 999},
		{Rate: 1, Period: -sec},
		{Rate: 1, Period: us + 1},
		{Rate: 1, Period: maxPeriod + us},
		{Rate: 1, Period: math.MaxInt64},
		{Rate: 1, Period: sec, Burst: -1},
		{Rate: 1, Period: sec, Burst: maxUnits + 1},
	}
	switch a {
	case SlidingWindowLog:
		limits = append(limits, Limit{Rate: maxLogged + 1, Period: sec})
	case TokenBucket, LeakyBucket:
		limits = append(limits,
			Limit{Rate: 1, Period: 366 * 24 * time.Hour, Burst: 100},
			Limit{Rate: 1, Period: 366 * 24 * time.Hour, Burst: maxUnits})
	}
	return limits
}

func TestContractOfContext(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, s *subject) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Allow(ctx, "key")
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.Peek(ctx, "key")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, s.Reset(ctx, "key"), context.Canceled)

		r, err := s.Peek(t.Context(), "key")
		require.NoError(t, err)
		require.Zero(t, r.ResetAfter, "a call that came too late was charged")
	})
}

func TestContractOfKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	contract(t, func(t *testing.T, s *subject) {
		*s.limit = Per(1, time.Hour)
		keys := []string{"a", "b", "{}", "}", "{", " ", "\x00", "a{b}c", "a*", "?", "[ab]", "é", "\xff", long, long + "y", long[:256], long[:257]}
		for _, key := range keys {
			r, err := s.Allow(t.Context(), key)
			require.NoError(t, err)
			require.True(t, r.Allowed, "%.80q shares with another key", key)
			r, err = s.Allow(t.Context(), key)
			require.NoError(t, err)
			require.False(t, r.Allowed)
		}
		for _, key := range keys {
			require.NoError(t, s.Reset(t.Context(), key))
			r, err := s.Allow(t.Context(), key)
			require.NoError(t, err)
			require.True(t, r.Allowed, "%.80q was not reset, or another was", key)
		}
	})
}

func TestContractOfLimits(t *testing.T) {
	t.Parallel()
	cause := errors.New("the plans are away")
	for _, a := range allAlgorithms {
		failing := LimitFunc(func(context.Context, string) (Limit, error) { return PerSecond(1), cause })
		r, err := newRedis(a, sharedRedis(t), failing, nil)
		require.NoError(t, err)
		m, err := NewMemory(a, failing)
		require.NoError(t, err)
		for _, l := range []Limiter{r, m} {
			_, err := l.Allow(t.Context(), "key")
			require.ErrorIs(t, err, cause)
			require.ErrorContains(t, err, `: key "key": the plans are away`)
		}
	}
}
