package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// A weight is the memory of one key of a subject's.
type weight struct {
	subject string
	bytes   int64 // MEMORY USAGE of all keys for it, a unit taken
	over    int64 // that over keys of the same names that hold the integer 1
	full    int64 // over those with all of fullUnits taken
}

const fullUnits = 1000

// weigh measures the memory of a key on a standalone server.
func weigh(ctx context.Context, s *site, of []subject) ([]weight, error) {
	aside := redis.NewClient(&redis.Options{Addr: s.addrs[0], DB: 1})
	defer aside.Close()
	var all []weight
	for _, sub := range of {
		if sub.floor() {
			continue
		}
		decide, err := sub.open(ctx, s, fullUnits)
		if err != nil {
			return nil, err
		}
		w := weight{subject: sub.name}
		if err = s.flush(ctx); err != nil {
			return nil, err
		}
		for _, n := range []int{1, fullUnits - 2, 1} { // the last finds a fraction come back
			if allowed, err := decide(ctx, "user:12345", n); err != nil || !allowed {
				return nil, errors.Join(err, fmt.Errorf("%s does not allow %d units", sub.name, n))
			}
			held, bare, err := memoryOf(ctx, s.nodes[0], aside)
			if err != nil {
				return nil, err
			}
			if n == 1 && w.bytes == 0 {
				w.bytes, w.over = held, held-bare
			}
			w.full = held - bare
		}
		all = append(all, w)
	}
	return all, s.flush(ctx)
}

// memoryOf is the memory of all keys of a server, and what they would take if
// each held the integer 1, which is tried in another database.
func memoryOf(ctx context.Context, node, aside *redis.Client) (held, bare int64, err error) {
	keys, err := keysWith(ctx, node, "")
	if err != nil {
		return 0, 0, err
	}
	for _, key := range keys {
		bytes, err := node.MemoryUsage(ctx, key, 0).Result() // 0: of all elements, no sample
		if err != nil {
			return 0, 0, err
		}
		held += bytes
		if err = aside.Set(ctx, key, 1, 0).Err(); err != nil {
			return 0, 0, err
		}
		if bytes, err = aside.MemoryUsage(ctx, key).Result(); err != nil {
			return 0, 0, err
		}
		bare += bytes
	}
	return held, bare, nil
}
