package ratelimit

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// scriptCommands is all that the scripts ask of a server.
var scriptCommands = []string{
	"time", "get", "mget", "set", "incrby", "decrby", "pttl", "pexpire", "hmget", "hset", "lindex", "llen", "rpush", "ltrim", "lrem", "del",
}

var (
	scriptComment = regexp.MustCompile(`(?m)--.*$`)
	scriptUse     = regexp.MustCompile(`redis\.[^(]*\([^,)]*(?:, *[^,)]*)?`)
	scriptCall    = regexp.MustCompile(`^redis\.p?call\('([A-Z]+)'(, KEYS\[[i12]\])?$`)
)

// The scripts use nothing of the server's Lua but redis.call and pcall, with commands that every server
// has, on a key that they declare and write as KEYS[i]: no replicate_commands, no setresp, no shebang.
func TestScriptsAskForLittle(t *testing.T) {
	t.Parallel()
	together, _ := allScript(allAlgorithms)
	scripts := map[string]*script{"all": together}
	for _, a := range allAlgorithms {
		scripts[string(a)] = a.program().decide()
		scripts[string(a)+", several"] = a.program().batch()
		scripts[string(a)+", reserve"] = a.program().reserve()
	}
	for a, script := range scripts {
		text := scriptComment.ReplaceAllString(script.text, "")
		if strings.HasSuffix(a, ", several") { // where a script may have many keys, it may fetch them at once
			text = strings.Replace(text, "redis.call('MGET', (table.unpack or unpack)(KEYS))", "", 1)
			text = strings.NewReplacer("local KEYS, ARGV, redis,", "", "= KEYS, ARGV, redis,", "").Replace(text)
		}
		require.NotContains(t, text, "#!")
		uses := scriptUse.FindAllString(text, -1)
		require.Len(t, uses, strings.Count(text, "redis"), a)
		require.NotEmpty(t, uses)
		for _, use := range uses {
			call := scriptCall.FindStringSubmatch(use)
			require.NotNil(t, call, "%s: %s", a, use)
			require.Contains(t, scriptCommands, strings.ToLower(call[1]))
			require.Equal(t, call[1] != "TIME", call[2] != "", use)
		}
	}
}

// A user who may run scripts and those commands on the one key, and nothing else, gets decisions. Without
// TIME, which some services refuse to scripts, the fixed window still decides and the others say why not.
func TestLeastPermissions(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	admin := server.Client(t)
	for _, a := range allAlgorithms {
		as := func(rules ...string) *Redis {
			user := uniqueKey(t)
			r, err := newRedis(a, newClient(t, &redis.Options{Addr: server.Addr(), Username: user, Password: "secret"}), PerHour(5).WithBurst(5), nil)
			require.NoError(t, err)
			all := []any{"acl", "setuser", user, "on", ">secret", "-@all", "+eval", "+evalsha", "+script", "~" + r.redisKey("key")}
			for _, command := range scriptCommands {
				all = append(all, "+"+command)
			}
			for _, rule := range rules {
				all = append(all, rule)
			}
			require.NoError(t, admin.Do(t.Context(), all...).Err())
			return r
		}
		r := as()
		for want := range 12 { // over the limit, and with another n, for the scripts' other branches
			result, err := r.AllowN(t.Context(), "key", 1+want%2)
			require.NoError(t, err, a)
			require.Equal(t, result.Allowed, result.RetryAfter == 0)
		}
		_, err := r.Peek(t.Context(), "key")
		require.NoError(t, err)
		_, err = r.Allow(t.Context(), "another key")
		requireNoPermission(t, err)

		result, err := as("-time").Allow(t.Context(), "key")
		if a == FixedWindow {
			require.NoError(t, err)
			require.Zero(t, result.Remaining)
			continue
		}
		requireNoPermission(t, err)
		require.Zero(t, result)
	}
}

// requireNoPermission knows the words of scripts, which differ from those of commands.
func requireNoPermission(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, "server", why(err), "%v", err)
	require.Regexp(t, `NOPERM|ACL|can't (run|access)`, err.Error())
}

// Whole numbers are taken in every form that servers and proxies give them: but for doubles, which no script of this
// library returns.
func TestRepliesInOtherForms(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		"*4\r\n:0\r\n:3\r\n:2000\r\n:1000",
		"*4\r\n$1\r\n0\r\n$1\r\n3\r\n$4\r\n2000\r\n$4\r\n1000",
		"*4\r\n+0\r\n+3\r\n+2000\r\n+1000",
		"*4\r\n:0\r\n$1\r\n3\r\n+2000\r\n:1000",
	} {
		r, err := NewTokenBucket(startFake(t, func(string) string { return reply }), PerSecond(5))
		require.NoError(t, err)
		result, err := r.Allow(t.Context(), "key")
		require.NoError(t, err, "%q", reply)
		require.Equal(t, Result{Limit: PerSecond(5), Remaining: 3, RetryAfter: 2 * ms, ResetAfter: 1 * ms}, result)
	}
	for _, reply := range []string{
		"*4\r\n:0\r\n,2.5\r\n:2000\r\n:1000", // a part of a unit
		"*4\r\n:0\r\n$3\r\n2.5\r\n:2000\r\n:1000",
		"*4\r\n:0\r\n,3\r\n:2000\r\n:1000",
		"*4\r\n:0\r\n,inf\r\n:2000\r\n:1000",
		"*4\r\n:0\r\n$0\r\n\r\n:2000\r\n:1000",
		"*4\r\n#f\r\n:3\r\n:2000\r\n:1000",
	} {
		r, err := NewTokenBucket(startFake(t, func(string) string { return reply }), PerSecond(5))
		require.NoError(t, err)
		result, err := r.Allow(t.Context(), "key")
		require.Error(t, err, "%q", reply)
		require.Zero(t, result)
	}
}

// Clients that send commands in batches, or to many servers, are served right after all scripts have gone.
func TestBatchedScriptsAreNeverMissing(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, 0).Client(t)
	ring := startRing(t, 2)
	own := startServer(t)
	batching, err := own.Client(t).AutoPipeline()
	require.NoError(t, err)
	async, err := own.Client(t).AsyncAutoPipeline()
	require.NoError(t, err)
	batchingCluster, err := cluster.AutoPipeline()
	require.NoError(t, err)
	flush := func(ctx context.Context, node *redis.Client) error { return node.ScriptFlush(ctx).Err() }
	flushOwn := func() error { return flush(t.Context(), own.Client(t)) }
	flushCluster := func() error { return cluster.ForEachMaster(t.Context(), flush) }
	for name, c := range map[string]struct {
		rdb   redis.UniversalClient
		flush func() error
	}{
		"autopipeline":         {batching, flushOwn},
		"async autopipeline":   {async, flushOwn},
		"cluster":              {cluster, flushCluster},
		"cluster autopipeline": {batchingCluster, flushCluster},
		"ring":                 {ring, func() error { return ring.ForEachShard(t.Context(), flush) }},
	} {
		for _, a := range allAlgorithms {
			r, err := newRedis(a, c.rdb, faultLimit, []Option{WithPrefix(uniqueKey(t))})
			require.NoError(t, err)
			for range 3 {
				require.NoError(t, c.flush())
				requireAll(t, 100, name, func() error { _, err := r.Allow(t.Context(), "key"); return err })
			}
			require.Equal(t, 300, charged(t, r, c.rdb), "%s %s", name, a)
		}
	}
}
