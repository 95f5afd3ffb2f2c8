package ratelimit

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Several limits at once against one, by the server's own time a call, in turns,
// and with enough callers that its caches are warm.
func BenchmarkAll(b *testing.B) {
	rdb := startServer(b).Client(b)
	limit := PerHour(1_000_000_000)
	one, err := NewTokenBucket(rdb, limit, WithoutCoalescing())
	require.NoError(b, err)
	two, err := NewSlidingWindowCounter(rdb, limit)
	require.NoError(b, err)
	three, err := NewFixedWindow(rdb, limit)
	require.NoError(b, err)
	second, err := NewTokenBucket(rdb, limit, WithPrefix("second"))
	require.NoError(b, err)
	third, err := NewTokenBucket(rdb, limit, WithPrefix("third"))
	require.NoError(b, err)
	mixed, err := All(one, two, three)
	require.NoError(b, err)
	alike, err := All(one, second, third)
	require.NoError(b, err)
	ways := []struct {
		name  string
		allow func(context.Context, string) error
	}{
		{"one", func(ctx context.Context, key string) error { _, err := one.Allow(ctx, key); return err }},
		{"All of 3 alike", func(ctx context.Context, key string) error { _, err := alike.Allow(ctx, key); return err }},
		{"All of 3 algorithms", func(ctx context.Context, key string) error { _, err := mixed.Allow(ctx, key); return err }},
		{"AllowAll of 3 keys", func(ctx context.Context, key string) error {
			_, _, err := AllowAll(ctx, Request{one, key, 1}, Request{second, "tenant", 1}, Request{third, "everybody", 1})
			return err
		}},
	}
	const rounds = 11
	times := make([][]float64, len(ways))
	for range rounds {
		for i, way := range ways {
			require.NoError(b, rdb.ConfigResetStat(b.Context()).Err())
			var callers sync.WaitGroup
			for c := range 16 {
				callers.Go(func() {
					for j := c; j < max(b.N/rounds, 16); j += 16 {
						if err := way.allow(b.Context(), strconv.Itoa(j%100)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			callers.Wait()
			times[i] = append(times[i], scriptTime(b, rdb))
		}
	}
	for i, way := range ways {
		ratios := make([]float64, rounds)
		for r := range ratios {
			ratios[r] = times[i][r] / times[0][r]
		}
		slices.Sort(ratios)
		slices.Sort(times[i])
		name := strings.ReplaceAll(way.name, " ", "-")
		b.ReportMetric(times[i][rounds/2], name+"-µs")
		b.ReportMetric(ratios[rounds/2], name+"-of-one")
	}
}

// scriptTime is the server's µs a call of EVALSHA since its statistics were reset.
func scriptTime(tb testing.TB, rdb *redis.Client) float64 {
	tb.Helper()
	info, err := rdb.Info(tb.Context(), "commandstats").Result()
	require.NoError(tb, err)
	found := regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([0-9.]+)`).FindStringSubmatch(info)
	require.NotNil(tb, found, info)
	us, err := strconv.ParseFloat(found[1], 64)
	require.NoError(tb, err)
	return us
}
