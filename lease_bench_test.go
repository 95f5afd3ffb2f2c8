package ratelimit

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkLease is decisions on one hot key and on many, whose units come from
// Redis, from Memory, or as if at once.
func BenchmarkLease(b *testing.B) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = "user:" + strconv.Itoa(i)
	}
	limit := PerSecond(maxUnits)
	inRedis, err := NewTokenBucket(sharedRedis(b), limit, WithPrefix(uniqueKey(b)))
	require.NoError(b, err)
	for _, from := range []struct {
		name string
		Base
	}{{"at_once", granting{limit: limit}}, {"memory", newMemory(b, TokenBucket, limit)}, {"redis", inRedis}} {
		for name, keys := range map[string][]string{"hot_key": many[:1], "keys_1000": many} {
			b.Run(from.name+"/"+name, func(b *testing.B) {
				l, ctx := &Lease{Limiter: from.Base}, b.Context()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if r, err := l.Allow(ctx, keys[i*7919%len(keys)]); err != nil || !r.Allowed {
						b.Fatal(r, err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
			b.Run(from.name+"/"+name+"/parallel", func(b *testing.B) {
				l := &Lease{Limiter: from.Base}
				b.SetParallelism(32)
				b.ReportAllocs()
				var worker atomic.Int64
				b.RunParallel(func(pb *testing.PB) {
					ctx := b.Context()
					for i := int(worker.Add(1)); pb.Next(); i++ {
						if r, err := l.Allow(ctx, keys[i*7919%len(keys)]); err != nil || !r.Allowed {
							b.Error(r, err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}

// A decision that needs no call allocates nothing.
func TestLeaseAllocatesNothing(t *testing.T) {
	l := &Lease{Limiter: granting{limit: PerHour(1_000_000)}, MaxAge: time.Hour}
	for range 1000 {
		require.True(t, allow(t, l, 1).Allowed)
	}
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(400, func() { _, _ = l.Allow(ctx, "key") }))
}

// What a Lease adds to a key that is called once.
func BenchmarkLeaseColdKeys(b *testing.B) {
	l, ctx := &Lease{Limiter: granting{limit: PerSecond(1000)}}, b.Context()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if r, err := l.Allow(ctx, strconv.Itoa(i)); err != nil || !r.Allowed {
			b.Fatal(r, err)
		}
	}
}

// granting is a Base that has whatever is asked for.
type granting struct {
	Base
	limit Limit
}

func (g granting) AllowUpTo(_ context.Context, _ string, n int) (int, Result, error) {
	return n, Result{Allowed: true, Limit: g.limit, Remaining: g.limit.Rate - n, ResetAfter: g.limit.Period}, nil
}
