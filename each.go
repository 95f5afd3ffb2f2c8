package ratelimit

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// An Outcome is what became of one of several requests: a Result, or the error
// that stands for none.
type Outcome struct {
	Result Result
	Err    error
}

// AllowEach decides requests that have nothing to do with each other, and gives
// each its Outcome: in one round trip for all limiters with the same Redis
// client, in the order of the requests. An error of one is none of the others'.
// Each is charged at most once, and a refused one not at all.
//
// The Limiters may be of any algorithm, *Redis and *Memory. Requests for the same
// key are decided one after the other. On a cluster each node gets its own, side
// by side, so there the order holds only for keys of one slot. Those that could
// not run at first are tried again, after the others.
func AllowEach(ctx context.Context, requests ...Request) []Outcome {
	outcomes := make([]Outcome, len(requests))
	var batches []*batch
	for i, q := range requests {
		switch l := q.Limiter.(type) {
		case *Redis:
			c, err := l.call(ctx, q)
			switch {
			case err != nil:
				outcomes[i].Err = err
			case c.script == nil:
				outcomes[i].Result = c.result
			default:
				c.outcome = &outcomes[i]
				batches = enqueue(batches, l, c)
			}
		case nil:
			outcomes[i].Err = fmt.Errorf("ratelimit: request %d: the Limiter is nil", i)
		default:
			outcomes[i].Result, outcomes[i].Err = l.AllowN(ctx, q.Key, q.N)
		}
	}
	// Side by side, so that a server that hangs does not use up the others' time.
	var wg sync.WaitGroup
	for i, b := range batches {
		if i == len(batches)-1 || ctx.Done() == nil {
			b.decide(ctx)
		} else {
			wg.Go(func() { b.decide(ctx) })
		}
	}
	wg.Wait()
	return outcomes
}

// A call is a request on its way to Redis.
type call struct {
	of      *Redis
	script  *script // nil if the result is known
	key     string
	name    string
	limit   Limit
	q       request
	result  Result
	outcome *Outcome
	cmd     once
}

func (r *Redis) call(ctx context.Context, q Request) (*call, error) {
	if r == nil || r.rdb == nil {
		return nil, errNotMade
	}
	l, request, err := prepare(ctx, r.algorithm, r.limits, q.Key, q.N, take)
	if err != nil {
		return nil, &callError{r.algorithm, q.Key, err}
	}
	if _, result, ok := l.fixed(q.N); ok {
		return &call{result: result}, nil
	}
	return &call{of: r, script: r.script, key: q.Key, name: r.redisKey(q.Key), limit: l, q: request}, nil
}

// A batch is calls to one client.
type batch struct {
	rdb   redis.UniversalClient
	slots chan struct{}
	calls []*call
}

func enqueue(batches []*batch, l *Redis, c *call) []*batch {
	for _, b := range batches {
		if sameClient(b.rdb, l.rdb) {
			b.calls = append(b.calls, c)
			return batches
		}
	}
	return append(batches, &batch{l.rdb, l.slots, []*call{c}})
}

// decide decides all calls. Those that surely did not run are tried again.
func (b *batch) decide(ctx context.Context) {
	answers, err := guard(ctx, b.slots, func() ([]Outcome, error) {
		open := b.calls
		for attempt := 1; ; attempt++ {
			run(ctx, b.rdb, open)
			var again []*call
			for _, c := range open {
				err := c.cmd.Err()
				reload(ctx, b.rdb, err)
				if err != nil && didNotRun(err) {
					again = append(again, c)
				}
			}
			if open = again; len(open) == 0 || attempt == maxAttempts || !pause(ctx, attempt) {
				break
			}
		}
		answers := make([]Outcome, len(b.calls))
		for i, c := range b.calls {
			answers[i] = c.answer(ctx)
		}
		return answers, nil
	})
	for i, c := range b.calls {
		if err != nil { // the time is over, and the calls are still in use
			*c.outcome = Outcome{Err: &callError{c.of.algorithm, c.key, err}}
			continue
		}
		*c.outcome = answers[i]
	}
}

func (c *call) answer(ctx context.Context) Outcome {
	reply, err := c.cmd.Result()
	if err == nil {
		var a answer
		if a, err = parse(reply, c.q); err == nil {
			return Outcome{Result: a.result(c.limit)}
		}
	}
	return Outcome{Err: &callError{c.of.algorithm, c.key, contextError(ctx, err)}}
}

// run sends calls in a pipeline. Those whose script a server does not know are
// sent again, once it was loaded and, if that did not help, with its text.
func run(ctx context.Context, rdb redis.UniversalClient, calls []*call) {
	send := func(calls []*call, command string, text func(*script) string) (unknown []*call) {
		pipe := rdb.Pipeline()
		for _, c := range calls {
			c.cmd = c.script.command(ctx, command, text(c.script), []string{c.name}, c.q.argv())
			_ = pipe.Process(ctx, c.cmd) // it is only queued
		}
		_, err := pipe.Exec(ctx)
		for _, c := range calls {
			// Where a pipeline fails as a whole not every command is told.
			if err != nil && c.cmd.Err() == nil && c.cmd.Val() == nil {
				c.cmd.SetErr(err)
			}
			if unknownScript(c.cmd.Err()) {
				unknown = append(unknown, c)
			}
		}
		return unknown
	}
	sha := func(s *script) string { return s.sha }
	unknown := send(calls, "evalsha", sha)
	if len(unknown) == 0 {
		return
	}
	type place struct {
		node redis.Scripter
		sha  string
	}
	loaded := map[place]bool{}
	for _, c := range unknown {
		at := place{node(ctx, rdb, c.name), c.script.sha}
		if at.node != nil && !loaded[at] {
			loaded[at] = true
			at.node.ScriptLoad(ctx, c.script.text)
		}
	}
	if unknown = send(unknown, "evalsha", sha); len(unknown) > 0 {
		send(unknown, "eval", func(s *script) string { return s.text })
	}
}
