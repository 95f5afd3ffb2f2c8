package ratelimit

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// alike is a Limiter that gives every call one answer.
type alike struct{ result Result }

func (a alike) Allow(ctx context.Context, key string) (Result, error) { return a.AllowN(ctx, key, 1) }
func (a alike) AllowN(context.Context, string, int) (Result, error)   { return a.result, nil }
func (a alike) Peek(context.Context, string) (Result, error)          { return a.result, nil }
func (a alike) Reset(context.Context, string) error                   { return nil }

func refusing(wait time.Duration) alike {
	return alike{Result{Limit: Per(1, time.Hour), RetryAfter: wait, ResetAfter: wait}}
}

func BenchmarkDenyCacheRefused(b *testing.B) {
	refused := func(b *testing.B, c *DenyCache, keys []string) {
		b.Helper()
		for _, key := range keys {
			_, err := c.Allow(b.Context(), key)
			require.NoError(b, err)
		}
	}
	many := make([]string, 50_000)
	for i := range many {
		many[i] = "user:" + strconv.Itoa(i)
	}
	for name, keys := range map[string][]string{"hot_key": many[:1], "keys_50000": many} {
		b.Run(name, func(b *testing.B) {
			c, ctx := &DenyCache{Limiter: refusing(time.Hour)}, b.Context()
			refused(b, c, keys)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if r, err := c.Allow(ctx, keys[i*7919%len(keys)]); err != nil || r.Allowed {
					b.Fatal(r, err)
				}
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			c := &DenyCache{Limiter: refusing(time.Hour)}
			refused(b, c, keys)
			b.SetParallelism(32)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				ctx := b.Context()
				for i := 0; pb.Next(); i++ {
					if r, err := c.Allow(ctx, keys[i*7919%len(keys)]); err != nil || r.Allowed {
						b.Error(r, err)
						return
					}
				}
			})
		})
	}
	b.Run("long_key", func(b *testing.B) {
		c, ctx := &DenyCache{Limiter: refusing(time.Hour)}, b.Context()
		key := string(make([]byte, 1000))
		b.ReportAllocs()
		for b.Loop() {
			if r, err := c.Allow(ctx, key); err != nil || r.Allowed {
				b.Fatal(r, err)
			}
		}
	})
}

// What the cache adds to a call that it lets through.
func BenchmarkDenyCacheAllowed(b *testing.B) {
	allowing := alike{Result{Allowed: true, Limit: Unlimited}}
	for name, l := range map[string]Limiter{"without": allowing, "with": &DenyCache{Limiter: allowing}} {
		b.Run(name, func(b *testing.B) {
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if r, err := l.Allow(ctx, "user:12345"); err != nil || !r.Allowed {
					b.Fatal(r, err)
				}
			}
		})
	}
}

// What it costs to remember a refusal: none of these keys has been seen, or each wait is over at once.
func BenchmarkDenyCacheRemembers(b *testing.B) {
	for name, wait := range map[string]time.Duration{"new_keys": time.Hour, "over": time.Nanosecond} {
		b.Run(name, func(b *testing.B) {
			c, ctx := &DenyCache{Limiter: refusing(wait)}, b.Context()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if r, err := c.Allow(ctx, strconv.Itoa(i)); err != nil || r.Allowed {
					b.Fatal(r, err)
				}
			}
		})
	}
}
