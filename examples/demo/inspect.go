package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/weirgo/ratelimit"
)

const listShown = 6

// A keyView is a key in Redis as it is.
type keyView struct {
	Name   string      `json:"name"`
	Type   string      `json:"type"` // "" if there is no such key
	Fields [][2]string `json:"fields"`
	More   int64       `json:"more"`   // list entries before those
	TTL    int64       `json:"ttl_ms"` // -1: it has none
	Bytes  int64       `json:"bytes"`  // -1: the server does not tell
	Error  string      `json:"error,omitempty"`
}

// redisKey is where the library keeps the state of key, which is short and
// has no braces.
func redisKey(a ratelimit.Algorithm, key string) string {
	return prefix + ":" + string(a) + ":{" + key + "}"
}

// inspect reads the five keys in one round trip.
func inspect(ctx context.Context, rdb redis.UniversalClient, key string) []keyView {
	pipe := rdb.Pipeline()
	read := make([]func() keyView, 0, len(algorithms))
	for i := range algorithms {
		id := algorithms[i].ID
		read = append(read, ask(ctx, pipe, redisKey(id, key), id))
	}
	pipe.Exec(ctx) //nolint:errcheck,gosec // each command has its own error
	views := make([]keyView, 0, len(read))
	for _, view := range read {
		views = append(views, view())
	}
	return views
}

// ask adds what is to be known of a key to the pipe; the function that it
// returns reads the replies.
func ask(ctx context.Context, pipe redis.Pipeliner, name string, a ratelimit.Algorithm) func() keyView {
	contents := contentsOf(ctx, pipe, name, a)
	ttl := pipe.PTTL(ctx, name)
	size := pipe.MemoryUsage(ctx, name)
	return func() keyView {
		v := keyView{Name: name, Bytes: -1}
		if err := contents(&v); err != nil && !errors.Is(err, redis.Nil) {
			v.Error = plainly(err)
			return v
		}
		v.TTL = ttl.Val().Milliseconds()
		if ttl.Val() < 0 { // go-redis leaves -1 and -2 as they are
			v.TTL = int64(ttl.Val())
		}
		if v.TTL == -2 || len(v.Fields) == 0 {
			return keyView{Name: name, Bytes: -1}
		}
		if size.Err() == nil {
			v.Bytes = size.Val()
		}
		return v
	}
}

func contentsOf(ctx context.Context, pipe redis.Pipeliner, name string, a ratelimit.Algorithm) func(*keyView) error {
	switch a {
	case ratelimit.FixedWindow:
		value := pipe.Get(ctx, name)
		return func(v *keyView) error {
			v.Type = "string"
			if value.Err() == nil {
				v.Fields = [][2]string{{"value", value.Val()}}
			}
			return value.Err()
		}
	case ratelimit.SlidingWindowLog:
		length := pipe.LLen(ctx, name)
		newest := pipe.LRange(ctx, name, -listShown, -1)
		return func(v *keyView) error {
			v.Type = "list"
			v.More = max(0, length.Val()-int64(len(newest.Val())))
			for i, entry := range newest.Val() {
				v.Fields = append(v.Fields, [2]string{fmt.Sprint(v.More + int64(i)), entry})
			}
			return newest.Err()
		}
	default:
		state := pipe.Get(ctx, name)
		return func(v *keyView) error {
			v.Type = "string"
			for i, number := range numbers(state.Val()) {
				v.Fields = append(v.Fields, [2]string{stateFields[a][i], strconv.FormatFloat(number, 'f', -1, 64)})
			}
			return state.Err()
		}
	}
}

// numbers are those of a state: doubles of 8 bytes, or text from a server whose
// scripts can't write them.
func numbers(state string) (three [3]float64) {
	if n, _ := fmt.Sscan(state, &three[0], &three[1], &three[2]); n < len(three) {
		_, _ = binary.Decode([]byte(state), binary.LittleEndian, &three)
	}
	return three
}

// stateFields are the names of a state's numbers.
var stateFields = map[ratelimit.Algorithm][3]string{
	ratelimit.TokenBucket:          {"at", "part", "tokens"},
	ratelimit.LeakyBucket:          {"at", "part", "level"},
	ratelimit.SlidingWindowCounter: {"start", "count", "before"},
}
