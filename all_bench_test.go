package ratelimit

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Several limits at once against one, by the server's own time a call, side by
// side in one run.
func BenchmarkAll(b *testing.B) {
	rdb := startServer(b).Client(b)
	limit := PerHour(1_000_000_000)
	one, err := NewTokenBucket(rdb, limit)
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
	base := map[string]float64{}
	for _, way := range []struct {
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
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			var times []float64
			for range 5 {
				require.NoError(b, rdb.ConfigResetStat(b.Context()).Err())
				for i := range max(b.N/5, 1) {
					require.NoError(b, way.allow(b.Context(), strconv.Itoa(i%1000)))
				}
				times = append(times, scriptTime(b, rdb))
			}
			slices.Sort(times)
			base[way.name] = times[2]
			b.ReportMetric(times[2], "server-µs/op")
			b.ReportMetric(times[2]/base["one"], "of-one")
		})
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
