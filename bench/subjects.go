package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

// A subject is one that is measured.
type subject struct {
	name  string                // in tables, and for -only
	ours  bool                  // of this library
	apart bool                  // not on go-redis: compared, but never the fastest peer
	grows bool                  // also measured over the number of keys and the limit
	kinds []ratelimit.Algorithm // what it can stand for; none: it is no limiter, but a floor for them
	open  opener
}

// An opener makes a limiter of limit units a day and as many at once, which
// talks to the servers of a site. It fails with errNoCluster if it can't.
type opener func(ctx context.Context, s *site, limit int) (take, error)

// A take decides on n units of key.
type take func(ctx context.Context, key string, n int) (allowed bool, err error)

const period = 24 * time.Hour

var errNoCluster = errors.New("it can't be used with Redis Cluster")

const (
	tokenBucket = ratelimit.TokenBucket
	leakyBucket = ratelimit.LeakyBucket
	fixedWindow = ratelimit.FixedWindow
	slidingLog  = ratelimit.SlidingWindowLog
	counter     = ratelimit.SlidingWindowCounter
)

func kinds(k ...ratelimit.Algorithm) []ratelimit.Algorithm { return k }

// subjects are all that can be measured: one line each. Of this library the
// first of a kind is what the others are compared with; a variant of it is one
// line more, with its options after the constructor.
var subjects = []subject{
	{name: "token-bucket", ours: true, grows: true, kinds: kinds(tokenBucket), open: ours(ratelimit.NewTokenBucket)},
	{name: "leaky-bucket", ours: true, grows: true, kinds: kinds(leakyBucket), open: ours(ratelimit.NewLeakyBucket)},
	{name: "fixed-window", ours: true, grows: true, kinds: kinds(fixedWindow), open: ours(ratelimit.NewFixedWindow)},
	{name: "sliding-log", ours: true, grows: true, kinds: kinds(slidingLog), open: ours(ratelimit.NewSlidingWindowLog)},
	{name: "sliding-counter", ours: true, grows: true, kinds: kinds(counter), open: ours(ratelimit.NewSlidingWindowCounter)},

	{name: "token-bucket-apart", ours: true, kinds: kinds(tokenBucket), open: ours(ratelimit.NewTokenBucket, ratelimit.WithoutCoalescing())},

	{name: "redis_rate", grows: true, kinds: kinds(tokenBucket, leakyBucket), open: redisRate},
	{name: "throttled", kinds: kinds(tokenBucket, leakyBucket), open: throttledGCRA},
	{name: "guide", kinds: kinds(tokenBucket), open: guide},
	{name: "ulule", kinds: kinds(fixedWindow), open: ululeWindow},
	{name: "zset-log", kinds: kinds(slidingLog), open: zsetLog},
	{name: "httprate-redis", kinds: kinds(counter), open: httprateRedis},
	{name: "rueidislimiter", apart: true, kinds: kinds(fixedWindow), open: rueidisLimiter},

	{name: "PING", open: ping},
	{name: "INCR", open: incr},
	{name: plainName, grows: true, open: plain},
}

// plainName is what growth is compared with.
const plainName = "HMGET+HSET"

// notes say what a name in the tables stands for.
var notes = map[string]string{
	"token-bucket-apart": "the token bucket with WithoutCoalescing: one script a call",
	"redis_rate":         "go-redis/redis_rate v10: GCRA, one script",
	"throttled":          "throttled v2: GCRA, a read and a compare-and-swap",
	"guide":              "a token bucket in the manner of Redis's guide: a script of HMGET and HSET",
	"ulule":              "ulule/limiter v3: fixed window, one script, counts refused calls too",
	"zset-log":           "the usual log in a sorted set: a script of ZREMRANGEBYSCORE, ZCARD and ZADD",
	"httprate-redis":     "go-chi/httprate with httprate-redis: sliding counter, two round trips under one mutex",
	"rueidislimiter":     "redis/rueidis: fixed window; not on go-redis but on a client that pipelines by itself",
	"PING":               "what go-redis and the wire take",
	"INCR":               "the least that counts",
	plainName:            "one pipeline that reads and writes a hash of three fields",
}

type constructor func(redis.UniversalClient, ratelimit.Limits, ...ratelimit.Option) (*ratelimit.Redis, error)

// ours opens a limiter of this library. One with options has a prefix of its
// own, of the same length, so that it shares no state with the one without.
func ours(construct constructor, options ...ratelimit.Option) opener {
	return func(_ context.Context, s *site, limit int) (take, error) {
		prefix := "ratelimit"
		if len(options) > 0 {
			prefix = "ratevaria"
		}
		l, err := construct(s.rdb, ratelimit.Per(limit, period).WithBurst(limit),
			append([]ratelimit.Option{ratelimit.WithPrefix(prefix)}, options...)...)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, key string, n int) (bool, error) {
			r, err := l.AllowN(ctx, key, n)
			return r.Allowed, err
		}, nil
	}
}

// choose is the subjects of that names, all for none, in their order.
func choose(names []string) ([]subject, error) {
	if len(names) == 0 {
		return subjects, nil
	}
	var chosen []subject
	for _, s := range subjects {
		if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, s.name) }) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(chosen, func(s subject) bool { return strings.EqualFold(name, s.name) }) {
			return nil, fmt.Errorf("there is no subject %q; there are %s", name, strings.Join(namesOf(subjects), ", "))
		}
	}
	return chosen, nil
}

func namesOf(of []subject) []string {
	names := make([]string, len(of))
	for i, s := range of {
		names[i] = s.name
	}
	return names
}

// is tells whether a limiter can stand for an algorithm.
func (s subject) is(a ratelimit.Algorithm) bool { return slices.Contains(s.kinds, a) }

func (s subject) floor() bool { return len(s.kinds) == 0 }
