package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// guideLua is a token bucket as guides teach it: the time comes from the client,
// tokens are a fraction, and the answer is whether and how many are left.
var guideLua = redis.NewScript(`
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'refilled')
local capacity, per_second, now, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens = tonumber(bucket[1]) or capacity
local refilled = tonumber(bucket[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - refilled) * per_second)
local allowed = 0
if tokens >= n then
  tokens, allowed = tokens - n, 1
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'refilled', now)
redis.call('EXPIRE', KEYS[1], math.ceil(capacity / per_second))
return {allowed, math.floor(tokens)}
`)

func guide(_ context.Context, s *site, limit int) (take, error) {
	perSecond := float64(limit) / period.Seconds()
	return func(ctx context.Context, key string, n int) (bool, error) {
		now := float64(time.Now().UnixMicro()) / 1e6
		return asked(guideLua.Run(ctx, s.rdb, []string{"guide:" + key}, limit, perSecond, now, n))
	}, nil
}

// zsetLua is a log as guides teach it: a member for each unit, by its time.
var zsetLua = redis.NewScript(`
local limit, window, now, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local left = limit - redis.call('ZCARD', KEYS[1]) - n
if left < 0 then
  return {0, left + n}
end
for i = 1, n do
  redis.call('ZADD', KEYS[1], now, ARGV[5] .. i)
end
redis.call('PEXPIRE', KEYS[1], window)
return {1, left}
`)

func zsetLog(_ context.Context, s *site, limit int) (take, error) {
	return func(ctx context.Context, key string, n int) (bool, error) {
		member := strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // members must differ, not be secret
		return asked(zsetLua.Run(ctx, s.rdb, []string{"zset:" + key}, limit, period.Milliseconds(), time.Now().UnixMilli(), n, member))
	}, nil
}

// asked reads {allowed, left}.
func asked(cmd *redis.Cmd) (bool, error) {
	reply, err := cmd.Int64Slice()
	return err == nil && reply[0] == 1, err
}

func ping(_ context.Context, s *site, _ int) (take, error) {
	return func(ctx context.Context, _ string, _ int) (bool, error) {
		return true, s.rdb.Ping(ctx).Err()
	}, nil
}

func incr(_ context.Context, s *site, _ int) (take, error) {
	return func(ctx context.Context, key string, n int) (bool, error) {
		return true, s.rdb.IncrBy(ctx, "incr:"+key, int64(n)).Err()
	}, nil
}

// plain does to Redis what a bucket must, and decides nothing.
func plain(_ context.Context, s *site, _ int) (take, error) {
	return func(ctx context.Context, key string, n int) (bool, error) {
		key = "plain:{" + key + "}"
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.HMGet(ctx, key, "tokens", "part", "at")
			p.HSet(ctx, key, "tokens", n, "part", 123456789012345, "at", time.Now().UnixMicro())
			return nil
		})
		return true, err
	}, nil
}
