package ratelimit

import (
	"context"
	"crypto/sha1" //nolint:gosec // EVALSHA names a script by its SHA-1; nothing is protected by it
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/head.lua
	headLua string
	//go:embed scripts/decide.lua
	decideLua string
	//go:embed scripts/one.lua
	oneLua string
	//go:embed scripts/batch.lua
	batchLua string
	//go:embed scripts/reserve.lua
	reserveLua string
)

// A script is an algorithm as Redis runs it.
type script struct {
	text    string
	sha     string
	now     any    // ARGV[1]: clock or noClock
	evalsha [2]any // how a command that runs it begins
}

const (
	clock   = "0"
	noClock = "-1"
)

// newScript composes and hashes a script, once, at its first use. Only local
// work is done once: whether a server knows the script is that server's matter.
func newScript(now string, compose func() string) func() *script {
	return sync.OnceValue(func() *script {
		text := compose()
		sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
		sha := hex.EncodeToString(sum[:])
		return &script{text: text, sha: sha, now: now, evalsha: [2]any{"evalsha", sha}}
	})
}

func (s *script) byText() *[2]any { return &[2]any{"eval", s.text} }

// A program is an algorithm in Lua with its tails.
type program struct {
	lua     *string
	now     string         // what its decisions need
	decide  func() *script // one request
	batch   func() *script // several
	reserve func() *script
}

func newProgram(lua *string, now string) *program {
	return &program{
		lua:     lua,
		now:     now,
		decide:  newScript(now, func() string { return inlined(headLua + *lua + decideLua + oneLua) }),
		batch:   newScript(now, func() string { return inlined(headLua + *lua + decideLua + batchLua) }),
		reserve: newScript(clock, func() string { return inlined(headLua + *lua + reserveLua) }),
	}
}

// run runs the script on keys and returns its reply: by one EVALSHA, unless the
// server does not know the script. Loading it keeps it out of the cache that
// newer servers shorten; a user who may not load, or a cache flushed just then,
// is left to EVAL.
func (s *script) run(ctx context.Context, rdb redis.UniversalClient, keys []string, argv []any) ([]int64, error) {
	reply, err := s.eval(ctx, rdb, &s.evalsha, keys, argv)
	if unknownScript(err) {
		s.load(ctx, rdb, keys[0])
		reply, err = s.eval(ctx, rdb, &s.evalsha, keys, argv)
	}
	if unknownScript(err) {
		reply, err = s.eval(ctx, rdb, s.byText(), keys, argv)
	}
	return reply, err
}

func (s *script) eval(ctx context.Context, rdb redis.UniversalClient, by *[2]any, keys []string, argv []any) ([]int64, error) {
	cmd := s.command(ctx, by, keys, argv)
	if err := rdb.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result() // an asynchronous pipeliner is waited for here
}

// A command runs a script. The client sends it at most once: without that
// go-redis repeats a script whose reply was lost, and charges up to four times.
type command struct {
	redis.IntSliceCmd
	args [10]any // room for one request
}

func (*command) NoRetry() bool { return true }

func (s *script) command(ctx context.Context, by *[2]any, keys []string, argv []any) *command {
	cmd := new(command)
	args := cmd.args[:0]
	if n := 4 + len(keys) + len(argv); n > len(cmd.args) {
		args = make([]any, 0, n)
	}
	args = append(args, by[0], by[1], len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	args = append(append(args, s.now), argv...)
	cmd.IntSliceCmd = *redis.NewIntSliceCmd(ctx, args...) // both in one allocation
	cmd.SetFirstKeyPos(3)
	return cmd
}

// unknownScript tells that a script did not run for want of its text. Proxies
// word it in their own ways, so the word is looked for anywhere in what the
// server said; but not in what a hook of the client adds, such as the key.
func unknownScript(err error) bool {
	if err == nil { // most often, and what As looks for takes an allocation
		return false
	}
	var said redis.Error
	return errors.As(err, &said) && strings.Contains(said.Error(), "NOSCRIPT")
}

// load puts the script where key lives. A failure shows at the next EVALSHA.
func (s *script) load(ctx context.Context, rdb redis.UniversalClient, key string) {
	if at := node(ctx, rdb, key); at != nil {
		at.ScriptLoad(ctx, s.text)
	}
}

// node is the client of the server that key lives on, nil if it is not known.
func node(ctx context.Context, rdb redis.UniversalClient, key string) redis.Scripter {
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		if master, err := c.MasterForKey(ctx, key); err == nil {
			return master
		}
		return nil
	case *redis.Ring:
		if shard, err := c.GetShardClientForKey(key); err == nil {
			return shard
		}
		return nil
	}
	return rdb
}

// argv is q as the scripts take it.
func (q request) argv() []any { return []any{q.mode.arg(), q.n, q.rate, q.period, q.capacity} }

// arg is m as an argument, without an allocation.
func (m mode) arg() any {
	switch m {
	case take:
		return string(take)
	case upTo:
		return string(upTo)
	case peek:
		return string(peek)
	}
	return string(m)
}

// only reads the reply to q alone, and trusts nothing in it.
func (q request) only(reply []int64) (answer, error) {
	if err := checkLen(reply, 4); err != nil {
		return answer{}, err
	}
	return q.answer(reply)
}

func checkLen(reply []int64, want int) error {
	if len(reply) != want {
		return unexpected(reply, fmt.Sprintf("it must be %d integers", want))
	}
	return nil
}

// answer reads the four integers that answer q.
func (q request) answer(n []int64) (answer, error) {
	a := answer{granted: n[0], remaining: n[1], retry: n[2], reset: n[3]}
	const longest = 1 << 53 // µs
	switch {
	case a.granted < 0, a.granted > max(q.n, 1),
		(q.mode == take || q.mode == reserving) && a.granted != 0 && a.granted != q.n,
		(a.granted > 0) != (a.retry == 0),
		a.retry < never, a.retry > longest,
		a.reset < 0, a.reset > longest,
		a.remaining < 0, a.remaining > q.capacity:
		return answer{}, unexpected(n, "it is out of bounds")
	}
	return a, nil
}

func unexpected(reply []int64, why string) error {
	text := fmt.Sprint(reply[:min(len(reply), 20)])
	return fmt.Errorf("unexpected reply %.100s: %s", text, why)
}
