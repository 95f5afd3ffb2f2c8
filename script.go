package ratelimit

import (
	"context"
	"crypto/sha1" //nolint:gosec // EVALSHA names a script by its SHA-1; nothing is protected by it
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/head.lua
	headLua string
	//go:embed scripts/tail.lua
	tailLua string
	//go:embed scripts/reserve.lua
	reserveLua string
)

// A script is an algorithm as Redis runs it.
type script struct {
	text string
	sha  string
	now  string // ARGV[1]: clock or noClock
}

const (
	clock   = "0"
	noClock = "-1"
)

// newScript composes and hashes a script, once, at its first use. Only local
// work is done once: whether a server knows the script is that server's matter.
func newScript(now string, compose func() string) func() *script {
	return sync.OnceValue(func() *script {
		text := headLua + compose()
		sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
		return &script{text: text, sha: hex.EncodeToString(sum[:]), now: now}
	})
}

// A program is an algorithm in Lua with its tails.
type program struct {
	lua     *string
	now     string // what its decisions need
	decide  func() *script
	reserve func() *script
}

func newProgram(lua *string, now string) *program {
	return &program{
		lua:     lua,
		now:     now,
		decide:  newScript(now, func() string { return *lua + tailLua }),
		reserve: newScript(clock, func() string { return *lua + reserveLua }),
	}
}

// run runs the script on keys and returns its reply: by one EVALSHA, unless the
// server does not know the script. Loading it keeps it out of the cache that
// newer servers shorten; a user who may not load, or a cache flushed just then,
// is left to EVAL.
func (s *script) run(ctx context.Context, rdb redis.UniversalClient, keys []string, argv ...any) (any, error) {
	reply, err := s.eval(ctx, rdb, "evalsha", s.sha, keys, argv)
	if unknownScript(err) {
		s.load(ctx, rdb, keys[0])
		reply, err = s.eval(ctx, rdb, "evalsha", s.sha, keys, argv)
	}
	if unknownScript(err) {
		reply, err = s.eval(ctx, rdb, "eval", s.text, keys, argv)
	}
	return reply, err
}

func (s *script) eval(ctx context.Context, rdb redis.UniversalClient, command, text string, keys []string, argv []any) (any, error) {
	cmd := s.command(ctx, command, text, keys, argv)
	if err := rdb.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result() // an asynchronous pipeliner is waited for here
}

func (s *script) command(ctx context.Context, command, text string, keys []string, argv []any) once {
	args := make([]any, 0, 4+len(keys)+len(argv))
	args = append(args, command, text, len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	args = append(append(args, s.now), argv...)
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	return once{cmd}
}

// unknownScript tells that a script did not run for want of its text. Proxies
// word it in their own ways, so the word is looked for anywhere in what the
// server said; but not in what a hook of the client adds, such as the key.
func unknownScript(err error) bool {
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

// A once is a command that the client sends at most once. Without it go-redis
// repeats a script whose reply was lost, and charges up to four times.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// argv is q as the scripts take it.
func (q request) argv() []any { return []any{string(q.mode), q.rate, q.period, q.capacity, q.n} }

// parse reads a script's answer to q and trusts nothing in it.
func parse(reply any, q request) (answer, error) {
	values, err := integers(reply, 4)
	if err != nil {
		return answer{}, err
	}
	return q.answer(values)
}

// integers takes a reply of so many integers.
func integers(reply any, want int) ([]int64, error) {
	values, _ := reply.([]any)
	if len(values) != want {
		return nil, unexpected(reply, fmt.Sprintf("it must be %d integers", want))
	}
	n := make([]int64, want)
	for i, v := range values {
		var err error
		if n[i], err = integer(v); err != nil {
			return nil, unexpected(reply, err.Error())
		}
	}
	return n, nil
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

func unexpected(reply any, why string) error {
	text := fmt.Sprint(reply)
	return fmt.Errorf("unexpected reply %q: %s", text[:min(len(text), 100)], why)
}

// integer takes whole numbers also as the text or the double that some proxies
// and servers make of them.
func integer(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case string:
		return strconv.ParseInt(v, 10, 64)
	case float64:
		if n := int64(v); float64(n) == v {
			return n, nil
		}
	}
	return 0, errors.New("it must be integers")
}
