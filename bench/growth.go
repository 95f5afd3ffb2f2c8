package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

const growthCallers = 64

// A curve is how a subject's Redis time a decision grows: a sample at each x
// and round; over the number of keys also that of the plain HMGET and HSET
// beside it.
type curve struct {
	subject string
	x       []int
	own     [][]float64
	plain   [][]float64
}

// at is the median time in µs at the i-th x.
func (c *curve) at(i int) float64 { return median(c.own[i]) }

// growth is how many times as long as at the first x a decision takes at the last.
func growth(of [][]float64) float64 { return median(of[len(of)-1]) / median(of[0]) }

// plainOf is what the plain commands beside all curves took.
func plainOf(curves []curve) curve {
	c := curve{subject: plainName, x: curves[0].x, own: make([][]float64, len(curves[0].x))}
	for _, other := range curves {
		for i := range other.plain {
			c.own[i] = append(c.own[i], other.plain[i]...)
		}
	}
	return c
}

// decades are the powers of ten between two numbers.
func decades(from, to int) []int {
	var all []int
	for x := from; x <= to; x *= 10 {
		all = append(all, x)
	}
	return all
}

// growKeys measures one entrant over the number of keys, beside the plain
// commands on as many keys of theirs in the same server.
func growKeys(ctx context.Context, s *site, e, plain entrant, most int, p plan) (curve, error) {
	c := curve{subject: e.name, x: decades(1000, most)}
	if err := s.flush(ctx); err != nil {
		return c, err
	}
	done := 1
	for _, n := range c.x {
		p.log("%s: %d keys", e.name, n)
		for _, of := range []entrant{e, plain} {
			if done == 1 {
				if err := fill(ctx, of, keyNames(1), prefilled); err != nil {
					return c, err
				}
			}
		}
		if err := multiply(ctx, s.nodes[0], done, n); err != nil {
			return c, err
		}
		done = n
		times, err := times(ctx, s, []entrant{e, plain}, &load{callers: growthCallers, keys: n, cancel: p.cancel}, nil, p)
		if err != nil {
			return c, err
		}
		c.own, c.plain = append(c.own, times[0]), append(c.plain, times[1])
	}
	return c, nil
}

// growLimit measures one entrant over the limit, nine tenths of which are used.
// There are as many keys as have twice the largest limit in all, but at least 10.
func growLimit(ctx context.Context, s *site, sub subject, makeups map[string]makeup, most int, p plan) (curve, error) {
	c := curve{subject: sub.name, x: decades(100, most)}
	units := 2 * most
	for _, limit := range c.x {
		p.log("%s: a limit of %d", sub.name, limit)
		if err := s.flush(ctx); err != nil {
			return c, err
		}
		in, err := enter(ctx, s, []subject{sub}, limit, makeups)
		if err != nil {
			return c, err
		}
		names := keyNames(max(units/limit, 10))
		if err := fill(ctx, in[0], names, limit*9/10); err != nil {
			return c, fmt.Errorf("%s: %w", sub.name, err)
		}
		times, err := times(ctx, s, in, &load{callers: growthCallers, keys: len(names), cancel: p.cancel}, names, p)
		if err != nil {
			return c, err
		}
		c.own = append(c.own, times[0])
	}
	return c, nil
}

// times are the Redis time of each entrant in each round.
func times(ctx context.Context, s *site, in []entrant, l *load, names []string, p plan) ([][]float64, error) {
	all := make([][]float64, len(in))
	for range p.rounds {
		accounts, err := p.round(ctx, s, in, l, names)
		if err != nil {
			return nil, err
		}
		for i, a := range accounts {
			all[i] = append(all[i], a.sample()[busy])
		}
	}
	return all, nil
}

// multiplyLua copies a key to names that end in other numbers.
const multiplyLua = `
for i = tonumber(ARGV[3]), tonumber(ARGV[4]) do
  redis.call('COPY', KEYS[1], ARGV[1] .. string.format('%.0f', i) .. ARGV[2], 'REPLACE')
end`

// multiply makes of each key that belongs to the first name one for every name
// from the done-th up to the n-th: much faster than as many decisions.
func multiply(ctx context.Context, node *redis.Client, done, n int) error {
	first := strings.TrimPrefix(keyName(0), "user:")
	var base int
	if _, err := fmt.Sscan(first, &base); err != nil {
		return err
	}
	samples, err := keysWith(ctx, node, keyName(0))
	if err != nil {
		return err
	}
	for _, key := range samples {
		i := strings.Index(key, first)
		head, tail := key[:i], key[i+len(first):]
		const batch = 100_000
		for from := done; from < n; from += batch {
			to := min(from+batch, n) - 1
			err := node.Eval(ctx, multiplyLua, []string{key}, head, tail, base+from, base+to).Err()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
		}
	}
	return nil
}

// keysWith are the keys whose names hold a text.
func keysWith(ctx context.Context, node *redis.Client, text string) ([]string, error) {
	var keys []string
	scan := node.Scan(ctx, 0, "*"+text+"*", 100_000).Iterator()
	for scan.Next(ctx) {
		keys = append(keys, scan.Val())
	}
	return keys, scan.Err()
}
