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
			c, result, err := l.call(ctx, q)
			switch {
			case err != nil:
				outcomes[i].Err = err
			case c == nil:
				outcomes[i].Result = result
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

// call is a request's way to Redis, nil if the result is known.
func (r *Redis) call(ctx context.Context, q Request) (*call, Result, error) {
	if r == nil || r.rdb == nil {
		return nil, Result{}, errNotMade
	}
	l, request, err := prepare(ctx, r.algorithm, r.limits, q.Key, q.N, take)
	if err != nil {
		return nil, Result{}, &callError{r.algorithm, q.Key, err}
	}
	if _, result, ok := l.fixed(q.N); ok {
		return nil, result, nil
	}
	return &call{of: r, key: q.Key, name: r.redisKey(q.Key), limit: l, q: request, argv: r.limitArgs(l, request)}, Result{}, nil
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
			pipeline(ctx, b.rdb, open)
			var again []*call
			for _, c := range open {
				reload(ctx, b.rdb, c.err)
				if c.err != nil && didNotRun(c.err) {
					again = append(again, c)
				}
			}
			if open = again; len(open) == 0 || attempt == maxAttempts || !pause(ctx, attempt) {
				break
			}
		}
		answers := make([]Outcome, len(b.calls))
		for i, c := range b.calls {
			answers[i] = c.settled(ctx)
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

func (c *call) settled(ctx context.Context) Outcome {
	if c.err != nil {
		return Outcome{Err: &callError{c.of.algorithm, c.key, contextError(ctx, c.err)}}
	}
	return Outcome{Result: c.answer.result(c.limit)}
}

// pipeline gives calls their answers or errors in one round trip for each node.
// Those whose script a server does not know are sent again, once it was loaded
// and, if that did not help, with its text.
func pipeline(ctx context.Context, rdb redis.UniversalClient, calls []*call) {
	send := func(calls []*call, by func(*script) *[2]any) (unknown []*call) {
		pipe := rdb.Pipeline()
		for _, c := range calls {
			c.cmd = c.of.script.command(ctx, by(c.of.script), []string{c.name}, c.args())
			_ = pipe.Process(ctx, c.cmd) // it is only queued
		}
		_, err := pipe.Exec(ctx)
		for _, c := range calls {
			// Where a pipeline fails as a whole not every command is told.
			if err != nil && c.cmd.Err() == nil && c.cmd.Val() == nil {
				c.cmd.SetErr(err)
			}
			if c.err = c.cmd.Err(); c.err == nil {
				c.answer, c.err = c.q.only(c.cmd.Val())
			} else if unknownScript(c.err) {
				unknown = append(unknown, c)
			}
			c.cmd = nil
		}
		return unknown
	}
	sha := func(s *script) *[2]any { return &s.evalsha }
	unknown := send(calls, sha)
	if len(unknown) == 0 {
		return
	}
	type place struct {
		node redis.Scripter
		sha  string
	}
	loaded := map[place]bool{}
	for _, c := range unknown {
		at := place{node(ctx, rdb, c.name), c.of.script.sha}
		if at.node != nil && !loaded[at] {
			loaded[at] = true
			at.node.ScriptLoad(ctx, c.of.script.text)
		}
	}
	if unknown = send(unknown, sha); len(unknown) > 0 {
		send(unknown, (*script).byText)
	}
}
