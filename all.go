package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Request asks a limiter for n units of a key's limit.
type Request struct {
	Limiter Base
	Key     string
	N       int // at least 1
}

// AllowAll takes what all requests ask for, or nothing if one of them is refused:
// atomically, and in Redis in one round trip. The first Result is that of the
// limit that decides: see All. The slice has one for each request, in their
// order: what its limit alone says. So after a refusal, which takes nothing, some
// of them may be Allowed.
//
// All limiters must be *Redis with the same client, or all *Memory, and no two
// requests may count the same key of the same limiter. The error is one of a
// single call, or says which requests do not go together.
//
// On a cluster and on a Ring all keys must lie in one slot: they must share a
// hash tag. A key has one if it begins with a text in braces, as
// "{tenant7}user:5" and "{tenant7}" do, which share it; but not if it is longer
// than 256 bytes. One key for everybody draws all the others into its slot. While
// a cluster moves that slot, keys that are not there yet may fail with TRYAGAIN.
func AllowAll(ctx context.Context, requests ...Request) (decides Result, each []Result, err error) {
	return allowAll(ctx, requests, take)
}

func allowAll(ctx context.Context, requests []Request, m mode) (decides Result, each []Result, err error) {
	if len(requests) == 0 {
		return Result{}, nil, errors.New("ratelimit: no requests: there must be at least 1")
	}
	for i, q := range requests {
		if isNil(q.Limiter) {
			return Result{}, nil, fmt.Errorf("ratelimit: request %d: the Limiter is nil", i)
		}
	}
	each, err = requests[0].Limiter.group(ctx, requests, m)
	if err != nil {
		return Result{}, nil, err
	}
	return deciding(each), each, nil
}

// deciding is the refusal with the longest wait, or if there is none the Result
// with the fewest units left.
func deciding(results []Result) Result {
	d := results[0]
	for _, r := range results[1:] {
		switch {
		case !r.Allowed && (d.Allowed || r.RetryAfter > d.RetryAfter),
			r.Allowed && d.Allowed && r.Remaining < d.Remaining:
			d = r
		}
	}
	return d
}

// A prepared request has its limit.
type prepared struct {
	limit  Limit
	q      request
	result Result
	fixed  bool // result is the answer
}

// prepareAll prepares requests to limiters of one kind. If one is refused
// whatever the state, it tells to only peek at the others.
func prepareAll[L interface {
	comparable
	Base
	settings() (Algorithm, Limits)
}](ctx context.Context, requests []Request, m mode) (all []prepared, limiters []L, only mode, err error) {
	all, limiters = make([]prepared, len(requests)), make([]L, len(requests))
	for i, r := range requests {
		l, ok := r.Limiter.(L)
		if !ok {
			return nil, nil, "", fmt.Errorf("ratelimit: request %d: the Limiter is a %T and that of request 0 a %T: they can't be decided together", i, r.Limiter, requests[0].Limiter)
		}
		a, limits := l.settings()
		if limits == nil {
			return nil, nil, "", errNotMade
		}
		p := &all[i]
		if p.limit, p.q, err = prepare(ctx, a, limits, r.Key, r.N, m); err != nil {
			return nil, nil, "", &callError{a, r.Key, err}
		}
		if _, p.result, p.fixed = p.limit.fixed(r.N); p.fixed && !p.result.Allowed {
			m = peek
		}
		limiters[i] = l
	}
	for i := range all {
		all[i].q.mode = m
	}
	return all, limiters, m, nil
}

func (r *Redis) settings() (Algorithm, Limits) {
	if r == nil {
		return "", nil
	}
	return r.algorithm, r.limits
}

func (r *Redis) group(ctx context.Context, requests []Request, m mode) ([]Result, error) {
	all, limiters, m, err := prepareAll[*Redis](ctx, requests, m)
	if err != nil {
		return nil, err
	}
	var g group
	for i, l := range limiters {
		if i > 0 && !sameClient(l.rdb, r.rdb) {
			return nil, fmt.Errorf("ratelimit: request %d: its Redis client is another than that of request 0: they can't be decided together", i)
		}
		if name := l.redisKey(requests[i].Key); !all[i].fixed {
			if j := g.find(name); j >= 0 {
				return nil, fmt.Errorf("ratelimit: requests %d and %d count the same key %.64q: ask for the sum of their N", g.index[j], i, name)
			}
			g.add(i, name, l.algorithm, all[i].q)
		}
	}
	if len(g.names) > 0 {
		if err := g.checkTags(r.rdb); err != nil {
			return nil, err
		}
		answers, err := guard(ctx, r.slots, func() ([]answer, error) {
			return retry(ctx, r.rdb, func() ([]answer, error) { return g.run(ctx, r.rdb, m) })
		})
		if err != nil {
			return nil, g.explain(err)
		}
		for j, a := range answers {
			p := &all[g.index[j]]
			p.result = a.result(p.limit)
		}
	}
	return results(all), nil
}

func results(all []prepared) []Result {
	r := make([]Result, len(all))
	for i := range all {
		r[i] = all[i].result
	}
	return r
}

// sameClient tells whether two clients are one. A client of a type of the
// caller's may not be comparable.
func sameClient(a, b redis.UniversalClient) bool {
	return a != nil && b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// A group is requests that are decided together in one script.
type group struct {
	index      []int // in the caller's requests
	names      []string
	algorithms []Algorithm
	requests   []request
}

func (g *group) add(i int, name string, a Algorithm, q request) {
	g.index = append(g.index, i)
	g.names = append(g.names, name)
	g.algorithms = append(g.algorithms, a)
	g.requests = append(g.requests, q)
}

// find is the request for a key of that name, or -1.
func (g *group) find(name string) int {
	for j, n := range g.names {
		if n == name {
			return j
		}
	}
	return -1
}

// script is what decides g, and its arguments.
func (g *group) script(m mode) (script *script, argv []any) {
	script, number := allScript(g.algorithms)
	argv = make([]any, 0, 1+5*len(g.requests))
	argv = append(argv, string(m))
	for j, q := range g.requests {
		argv = append(argv, number[g.algorithms[j]], q.rate, q.period, q.capacity, q.n)
	}
	return script, argv
}

func (g *group) run(ctx context.Context, rdb redis.UniversalClient, m mode) ([]answer, error) {
	script, argv := g.script(m)
	n, err := script.run(ctx, rdb, g.names, argv)
	if err == nil {
		err = checkLen(n, 4*len(g.requests))
	}
	if err != nil {
		return nil, err
	}
	answers := make([]answer, len(g.requests))
	for j, q := range g.requests {
		if answers[j], err = q.answer(n[4*j : 4*j+4]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// checkTags tells of keys that a cluster would not take in one script.
func (g *group) checkTags(rdb redis.UniversalClient) error {
	switch rdb.(type) {
	case *redis.ClusterClient, *redis.Ring:
	default:
		return nil
	}
	for _, name := range g.names[1:] {
		if hashTag(name) != hashTag(g.names[0]) {
			return fmt.Errorf("ratelimit: the keys %s: they have no hash tag in common, so they may lie on different nodes: begin them with the same text in braces, as in \"{tenant7}login\", and let none be over %d bytes", g.quoted(), longestKey)
		}
	}
	return nil
}

// explain adds the keys to err, and what to do where a server that a client
// hides is a cluster.
func (g *group) explain(err error) error {
	what := ""
	if redis.HasErrorPrefix(err, "CROSSSLOT") {
		what = "they have no hash tag in common: "
	}
	return fmt.Errorf("ratelimit: the keys %s: %s%w", g.quoted(), what, err)
}

func (g *group) quoted() string {
	names := make([]string, len(g.names))
	for j, name := range g.names {
		names[j] = fmt.Sprintf("%.100q", name)
	}
	return strings.Join(names, ", ")
}

// hashTag is the part of a name that chooses its slot; all names here have one.
func hashTag(name string) string {
	_, tag, _ := strings.Cut(name, "{")
	tag, _, _ = strings.Cut(tag, "}")
	return tag
}
