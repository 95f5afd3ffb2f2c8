package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

func redisRate(_ context.Context, s *site, limit int) (take, error) {
	l, per := redis_rate.NewLimiter(s.rdb), redis_rate.Limit{Rate: limit, Burst: limit, Period: period}
	return func(ctx context.Context, key string, n int) (bool, error) {
		r, err := l.AllowN(ctx, key, per, n)
		return err == nil && r.Allowed > 0, err
	}, nil
}

func throttledGCRA(_ context.Context, s *site, limit int) (take, error) {
	store, err := goredisstore.NewCtx(s.rdb, "throttled:")
	if err != nil {
		return nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerDay(limit), MaxBurst: limit - 1})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string, n int) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, n)
		return !limited, err
	}, nil
}

func ululeWindow(_ context.Context, s *site, limit int) (take, error) {
	store, err := ululeredis.NewStore(s.rdb)
	if err != nil {
		return nil, err
	}
	rate := ulule.Rate{Period: period, Limit: int64(limit)}
	return func(ctx context.Context, key string, n int) (bool, error) {
		r, err := store.Increment(ctx, key, int64(n), rate)
		return !r.Reached, err
	}, nil
}

// httprateRedis calls what httprate's middleware calls, without a server.
func httprateRedis(_ context.Context, s *site, limit int) (take, error) {
	rdb, ok := s.rdb.(*redis.Client)
	if !ok {
		return nil, errNoCluster
	}
	l := httprate.NewRateLimiter(limit, period,
		httprateredis.WithRedisLimitCounter(&httprateredis.Config{Client: rdb, WindowLength: period, FallbackDisabled: true}),
		httprate.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, err error) { w.(*dropped).err = err }), //nolint:forcetypeassert // it is given no other
	)
	return func(ctx context.Context, key string, n int) (bool, error) {
		if n != 1 {
			ctx = httprate.WithIncrement(ctx, n)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
		if err != nil {
			return false, err
		}
		w := &dropped{header: http.Header{}}
		limited := l.OnLimit(w, r, key)
		return !limited, w.err
	}, nil
}

// dropped is an answer that nobody reads, but for the error.
type dropped struct {
	header http.Header
	err    error
}

func (d *dropped) Header() http.Header         { return d.header }
func (d *dropped) Write(b []byte) (int, error) { return len(b), nil }
func (d *dropped) WriteHeader(int)             {}

func rueidisLimiter(_ context.Context, s *site, limit int) (take, error) {
	options := rueidis.ClientOption{
		InitAddress: s.addrs,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", s.route(addr))
		},
	}
	l, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientBuilder: func(o rueidis.ClientOption) (rueidis.Client, error) {
			client, err := rueidis.NewClient(o)
			if err == nil {
				s.closers = append(s.closers, client.Close)
			}
			return client, err
		},
		ClientOption: options,
		Limit:        limit,
		Window:       period,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string, n int) (bool, error) {
		r, err := l.AllowN(ctx, key, int64(n))
		return r.Allowed, err
	}, nil
}
