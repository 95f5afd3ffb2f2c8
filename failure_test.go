package ratelimit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestConstructorsCheck(t *testing.T) {
	t.Parallel()
	rdb := sharedRedis(t)
	var nilClient *redis.Client
	var nilCluster *redis.ClusterClient
	constructors := map[Algorithm]func(redis.UniversalClient, Limits, ...Option) (*Redis, error){
		TokenBucket:          NewTokenBucket,
		FixedWindow:          NewFixedWindow,
		SlidingWindowLog:     NewSlidingWindowLog,
		SlidingWindowCounter: NewSlidingWindowCounter,
		LeakyBucket:          NewLeakyBucket,
	}
	for a, construct := range constructors {
		for _, c := range []struct {
			rdb    redis.UniversalClient
			limits Limits
			option Option
			want   string
		}{
			{nil, PerSecond(1), nil, "client is nil"},
			{nilClient, PerSecond(1), nil, "client is nil"},
			{nilCluster, PerSecond(1), nil, "client is nil"},
			{pipelining{rdb, rdb.Pipeline()}, PerSecond(1), nil, "Pipeliner"},
			{rdb, nil, nil, "Limits are nil"},
			{rdb, LimitFunc(nil), nil, "Limits are nil"},
			{rdb, &Limit{}, nil, "zero Limit"},
			{rdb, PerSecond(1), WithPrefix(""), "prefix has 0 bytes"},
			{rdb, PerSecond(1), WithPrefix(strings.Repeat("x", 129)), "prefix has 129 bytes"},
			{rdb, PerSecond(1), WithPrefix("a{b}"), "brace"},
		} {
			r, err := construct(c.rdb, c.limits, c.option)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "ratelimit: "+string(a)+": ")
			require.Nil(t, r)
		}
		for _, l := range invalidLimits(a) {
			_, err := construct(rdb, l)
			require.ErrorIs(t, err, ErrInvalidLimit, "%+v", l)
		}
		r, err := construct(rdb, PerSecond(1))
		require.NoError(t, err)
		require.Equal(t, a, r.algorithm)
	}
}

// A pipelining is a client that has become a Pipeliner, too.
type pipelining struct {
	*redis.Client
	pipe redis.Pipeliner
}

func (p pipelining) Len() int                                                   { return p.pipe.Len() }
func (p pipelining) BatchProcess(ctx context.Context, cmd ...redis.Cmder) error { return nil }
func (p pipelining) Discard()                                                   {}
func (p pipelining) Exec(ctx context.Context) ([]redis.Cmder, error)            { return nil, nil }
func (p pipelining) Cmds() []redis.Cmder                                        { return nil }
func (p pipelining) Auth(context.Context, string) *redis.StatusCmd              { return nil }
func (p pipelining) AuthACL(context.Context, string, string) *redis.StatusCmd {
	return nil
}
func (p pipelining) Select(context.Context, int) *redis.StatusCmd         { return nil }
func (p pipelining) SwapDB(context.Context, int, int) *redis.StatusCmd    { return nil }
func (p pipelining) ClientSetName(context.Context, string) *redis.BoolCmd { return nil }
func (p pipelining) ClientSetInfo(context.Context, redis.LibraryInfo) *redis.StatusCmd {
	return nil
}

func (p pipelining) Hello(context.Context, int, string, string, string) *redis.MapStringInterfaceCmd {
	return nil
}

// A key of another type is an error, and stays what it is.
func TestKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, PerHour(5), func(t *testing.T, r *Redis) {
		ctx, rdb := t.Context(), sharedRedis(t)
		key := r.redisKey("key")
		require.NoError(t, rdb.SAdd(ctx, key, "member").Err())
		_, err := r.Allow(ctx, "key")
		require.ErrorContains(t, err, "WRONGTYPE")
		require.Equal(t, []string{"member"}, rdb.SMembers(ctx, key).Val())
		require.NoError(t, r.Reset(ctx, "key"))
		result, err := r.Allow(ctx, "key")
		require.NoError(t, err)
		require.True(t, result.Allowed)
	})
}

// State that this library did not write never panics, and never blocks for good.
func TestStateOfAnotherHand(t *testing.T) {
	t.Parallel()
	eachAlgorithm(t, Per(5, 10*time.Second), func(t *testing.T, r *Redis) {
		ctx, rdb := t.Context(), sharedRedis(t)
		key := r.redisKey("key")
		for _, value := range []string{"", "x", "-1", "1e400", "nan", "9223372036854775807", "0.5"} {
			require.NoError(t, r.Reset(ctx, "key"))
			switch r.algorithm {
			case FixedWindow:
				require.NoError(t, rdb.Set(ctx, key, value, 0).Err())
			case SlidingWindowLog:
				require.NoError(t, rdb.RPush(ctx, key, value).Err())
			default:
				for _, double := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 0.5, 1, 5e-324, 1 << 53, -1 << 53, 1e300} {
					for i := range 3 {
						state := [3]float64{float64(serverTime(t, rdb).UnixMicro()), 0, 1}
						state[i] = double
						bytes, err := binary.Append(nil, binary.LittleEndian, state)
						require.NoError(t, err)
						require.NoError(t, rdb.Set(ctx, key, append(bytes, value...), 0).Err())
						result, err := r.Allow(ctx, "key")
						require.NoError(t, err, "%v", state)
						require.LessOrEqual(t, result.RetryAfter, 20*time.Second, "%v", state)
					}
				}
				require.NoError(t, rdb.Set(ctx, key, value, 0).Err())
			}
			if result, err := r.Allow(ctx, "key"); err == nil {
				require.LessOrEqual(t, result.Remaining, 5)
				require.GreaterOrEqual(t, result.Remaining, 0)
				if !result.Allowed {
					require.LessOrEqual(t, result.RetryAfter, 20*time.Second, "%q", value)
				}
			}
		}
	})
}

func TestReadOnlyReplica(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	rdb := startReplica(t, master).Client(t)
	for _, a := range allAlgorithms {
		r, err := newRedis(a, rdb, PerHour(5).WithBurst(5), nil)
		require.NoError(t, err)
		_, err = r.Allow(t.Context(), "key")
		require.True(t, redis.IsReadOnlyError(err), "%v", err)
		_, err = r.Peek(t.Context(), "key")
		require.NoError(t, err, "a peek writes nothing")
	}
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	rdb := startServer(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction").Client(t)
	for _, a := range allAlgorithms {
		r, err := newRedis(a, rdb, PerHour(5), nil)
		require.NoError(t, err)
		_, err = r.Allow(t.Context(), "key")
		require.ErrorContains(t, err, "OOM ")
		require.Zero(t, rdb.DBSize(t.Context()).Val())
	}
}

// A user who may run scripts but not send their text is served as soon as
// anybody has loaded them; one who may do neither gets an error that says so.
func TestPermissions(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	admin := server.Client(t)
	for _, user := range []string{"runner", "loader"} {
		rules := []any{"acl", "setuser", user, "on", ">secret", "~*", "+@all", "-eval"}
		if user == "runner" {
			rules = append(rules, "-script")
		}
		require.NoError(t, admin.Do(t.Context(), rules...).Err())
	}
	as := func(user string) *redis.Client {
		return newClient(t, &redis.Options{Addr: server.Addr(), Username: user, Password: "secret"})
	}
	for _, a := range allAlgorithms {
		runner, err := newRedis(a, as("runner"), PerHour(5), nil)
		require.NoError(t, err)
		_, err = runner.Allow(t.Context(), "key")
		require.True(t, redis.IsPermissionError(err), "%v", err)

		loader, err := newRedis(a, as("loader"), PerHour(5), nil)
		require.NoError(t, err)
		for _, r := range []*Redis{loader, runner} {
			result, err := r.Allow(t.Context(), r.rdb.(*redis.Client).Options().Username)
			require.NoError(t, err)
			require.True(t, result.Allowed)
		}
	}
}

// What surely did not run is tried again, within the context.
func TestRetriesWhatDidNotRun(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{
		"-LOADING Redis is loading the dataset in memory",
		"-READONLY You can't write against a read only replica.",
		"-CLUSTERDOWN The cluster is down",
		"-TRYAGAIN Multiple keys request during rehashing of slot",
		"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	} {
		var asked atomic.Int64
		rdb := startFake(t, func(string) string {
			if asked.Add(1) < maxAttempts {
				return refusal
			}
			return "*4\r\n:1\r\n:4\r\n:0\r\n:1000"
		})
		r, err := NewTokenBucket(rdb, PerSecond(5))
		require.NoError(t, err)
		result, err := r.Allow(t.Context(), "key")
		require.NoError(t, err, refusal)
		require.Equal(t, Result{Allowed: true, Limit: PerSecond(5), Remaining: 4, ResetAfter: time.Millisecond}, result)
		require.EqualValues(t, maxAttempts, asked.Load())

		// Not for ever.
		asked.Store(-1000)
		_, err = r.Allow(t.Context(), "key")
		require.ErrorContains(t, err, strings.Fields(refusal[1:])[0])
		require.EqualValues(t, -1000+maxAttempts, asked.Load())

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err = r.Allow(ctx, "key")
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

// What may have run is not tried again.
func TestRepeatsNothingElse(t *testing.T) {
	t.Parallel()
	for _, failure := range []string{"-ERR something", "-OOM command not allowed", "-BUSY Redis is busy running a script", "-NOREPLICAS Not enough good replicas to write."} {
		var asked atomic.Int64
		rdb := startFake(t, func(string) string { asked.Add(1); return failure })
		r, err := NewTokenBucket(rdb, PerSecond(5))
		require.NoError(t, err)
		_, err = r.Allow(t.Context(), "key")
		require.ErrorContains(t, err, strings.Fields(failure[1:])[0])
		require.EqualValues(t, 1, asked.Load())
	}
}

// However a server or a proxy words it, a script that is not known is loaded,
// and in the end sent whole.
func TestUnknownScriptInOtherWords(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"NOSCRIPT No matching script. Please use EVAL.", "ERR NOSCRIPT No matching script", "ERR Error running script: NOSCRIPT No matching script"} {
		rdb := startFake(t, func(command string) string {
			if command == "evalsha" {
				return "-" + words
			}
			return "*4\r\n:1\r\n:4\r\n:0\r\n:1000"
		})
		r, err := NewTokenBucket(rdb, PerSecond(5))
		require.NoError(t, err)
		result, err := r.Allow(t.Context(), "key")
		require.NoError(t, err)
		require.True(t, result.Allowed)
	}
}

// A hook that puts the command, and with it the key, into the error of a lost
// reply does not make it look as if the script were unknown.
func TestKeyThatSaysNOSCRIPT(t *testing.T) {
	t.Parallel()
	rdb := newClient(t, &redis.Options{Addr: sharedAddr()})
	r, err := NewFixedWindow(rdb, PerHour(10), WithPrefix(uniqueKey(t)))
	require.NoError(t, err)
	_, err = r.Allow(t.Context(), "NOSCRIPT") // the script is known from here on
	require.NoError(t, err)
	rdb.AddHook(processHook(func(next redis.ProcessHook) redis.ProcessHook {
		return func(ctx context.Context, cmd redis.Cmder) error {
			_ = next(ctx, cmd)
			err := fmt.Errorf("%v: %w", cmd, io.EOF)
			cmd.SetErr(err)
			return err
		}
	}))
	_, err = r.Allow(t.Context(), "NOSCRIPT")
	require.ErrorIs(t, err, io.EOF)

	result, err := through(t, r, sharedRedis(t)).Peek(t.Context(), "NOSCRIPT")
	require.NoError(t, err)
	require.Equal(t, 8, result.Remaining)
}

// A call whose time was up before anything could be sent takes nothing, also
// with clients that do not look at the context themselves.
func TestSlowLimits(t *testing.T) {
	t.Parallel()
	slow := LimitFunc(func(ctx context.Context, _ string) (Limit, error) {
		<-ctx.Done()
		return PerHour(10), nil
	})
	pipeliner, err := newClient(t, &redis.Options{Addr: sharedAddr()}).AutoPipeline()
	require.NoError(t, err)
	r, err := NewFixedWindow(pipeliner, slow, WithPrefix(uniqueKey(t)))
	require.NoError(t, err)
	m, err := NewMemory(FixedWindow, slow)
	require.NoError(t, err)
	for _, l := range []Limiter{r, m} {
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := l.Allow(ctx, "key")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	}
	require.Empty(t, keysOf(t, r))
	require.Zero(t, m.Len())
}

// FuzzReply: whatever a server answers, a call returns a Result within bounds
// or an error.
func FuzzReply(f *testing.F) {
	for _, reply := range []string{
		"*4\r\n:1\r\n:4\r\n:0\r\n:1000", "*4\r\n:0\r\n:0\r\n:-1\r\n:1000", "*4\r\n$1\r\n1\r\n$1\r\n4\r\n$1\r\n0\r\n$1\r\n9",
		"*3\r\n:1\r\n:4\r\n:0", "*0", "*-1", "$-1", "+OK", ":1", "*4\r\n:1\r\n:4\r\n:9\r\n:0", "*4\r\n:2\r\n:4\r\n:0\r\n:0",
		"*4\r\n:1\r\n:6\r\n:0\r\n:0", "*4\r\n:1\r\n:-1\r\n:0\r\n:0", "*4\r\n:0\r\n:1\r\n:-2\r\n:0", "*4\r\n:0\r\n:1\r\n:9223372036854775807\r\n:0",
		"*4\r\n:1\r\n:1\r\n:0\r\n:9223372036854775807", "*4\r\n*0\r\n$1\r\nx\r\n$-1\r\n:0", "-WRONGTYPE x", "*4\r\n-ERR x\r\n:1\r\n:1\r\n:1",
		"*4\r\n,1.5\r\n,4\r\n,0\r\n,nan", "_", "%1\r\n:1\r\n:2",
	} {
		f.Add([]byte(reply))
	}
	// go-redis makes room for whatever length a server names, before it reads.
	tooLong := regexp.MustCompile(`[*$%~>=!|]\d{6,}`)
	f.Fuzz(func(t *testing.T, reply []byte) {
		if tooLong.Match(reply) {
			return
		}
		rdb := startFake(t, func(string) string { return string(reply) })
		r, err := NewTokenBucket(rdb, PerSecond(5))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		result, err := r.Allow(ctx, "key")
		if err != nil {
			require.Equal(t, Result{}, result)
			return
		}
		require.Equal(t, result.Allowed, result.RetryAfter == 0)
		require.GreaterOrEqual(t, result.RetryAfter, time.Duration(0))
		require.GreaterOrEqual(t, result.ResetAfter, time.Duration(0))
		require.GreaterOrEqual(t, result.Remaining, 0)
		require.LessOrEqual(t, result.Remaining, 5)
	})
}

// Errors say which call failed, and wrap why. A key does not flood a log.
func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("away")
	err := error(&callError{TokenBucket, strings.Repeat("a\n", 500), cause})
	require.ErrorIs(t, err, cause)
	require.Equal(t, `ratelimit: token_bucket: key "`+strings.Repeat(`a\n`, 32)+`"...: away`, err.Error())
	err = &callError{TokenBucket, strings.Repeat("ü", 64), cause}
	require.Equal(t, `ratelimit: token_bucket: key "`+strings.Repeat("ü", 32)+`"...: away`, err.Error())
	err = &callError{TokenBucket, "x" + strings.Repeat("ü", 64), cause}
	require.Equal(t, `ratelimit: token_bucket: key "x`+strings.Repeat("ü", 31)+`"...: away`, err.Error())
	require.Equal(t, "ratelimit: fixed_window: invalid limit", (&callError{FixedWindow, "", ErrInvalidLimit}).Error())
}

// A hook of the client that panics, or ends its goroutine, is an error: not the
// end of the process, nor a call that waits for its context.
func TestHooksThatDoNotReturn(t *testing.T) {
	t.Parallel()
	for want, end := range map[string]func(){
		"panicked: a hook":    func() { panic("a hook") },
		"ended its goroutine": runtime.Goexit,
	} {
		rdb := newClient(t, &redis.Options{Addr: sharedAddr()})
		rdb.AddHook(processHook(func(redis.ProcessHook) redis.ProcessHook {
			return func(context.Context, redis.Cmder) error {
				end()
				return nil
			}
		}))
		r, err := NewTokenBucket(rdb, PerSecond(5))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err = r.Allow(ctx, "key")
		cancel()
		require.ErrorContains(t, err, want)
	}
}

// A processHook is a hook for single commands.
type processHook func(redis.ProcessHook) redis.ProcessHook

func (processHook) DialHook(next redis.DialHook) redis.DialHook            { return next }
func (h processHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return h(next) }

func (processHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A limiter that no constructor has made says so.
func TestZeroLimiters(t *testing.T) {
	t.Parallel()
	for _, l := range []Limiter{new(Redis), new(Memory), (*Redis)(nil), (*Memory)(nil)} {
		_, err := l.Allow(t.Context(), "key")
		require.ErrorContains(t, err, "not made by its constructor")
		_, err = l.Peek(t.Context(), "key")
		require.ErrorContains(t, err, "not made by its constructor")
		require.ErrorContains(t, l.Reset(t.Context(), "key"), "not made by its constructor")
	}
}

func TestDidNotRun(t *testing.T) {
	t.Parallel()
	require.True(t, didNotRun(&net.OpError{Op: "dial", Err: errors.New("refused")}))
	require.True(t, didNotRun(redis.ErrPoolTimeout))
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, &net.OpError{Op: "read", Err: errors.New("reset")}, context.DeadlineExceeded, redis.ErrClosed, errors.New("x")} {
		require.False(t, didNotRun(err), "%v", err)
	}
}
