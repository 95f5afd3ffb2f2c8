package ratelimit

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// The rules that the README gives for a user are enough for all that limiters
// do, and none of them is too many.
func TestACL(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ACL SETUSER limiter (.*)$`).FindSubmatch(readme)
	require.NotNil(t, line)
	rules := strings.Fields(string(line[1]))

	server := startServer(t)
	admin := server.Client(t)
	without := func(t *testing.T, left string) error {
		require.NoError(t, admin.FlushAll(t.Context()).Err())
		require.NoError(t, admin.ScriptFlush(t.Context()).Err())
		args := []any{"acl", "setuser", "limiter", "reset"}
		for _, rule := range rules {
			if rule != left {
				args = append(args, rule)
			}
		}
		require.NoError(t, admin.Do(t.Context(), args...).Err())
		return useAll(t, newClient(t, &redis.Options{Addr: server.Addr(), Username: "limiter", Password: "secret"}))
	}
	require.NoError(t, without(t, ""))
	for _, rule := range rules {
		switch {
		case rule == "+eval", rule == "+script|load": // who has one can do without the other
			require.NoError(t, without(t, rule), rule)
		case strings.HasPrefix(rule, "+"):
			require.Error(t, without(t, rule), rule)
		}
	}
}

// useAll does with limiters all that can be done.
func useAll(t *testing.T, rdb *redis.Client) error {
	t.Helper()
	ctx := t.Context()
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	var bases []Base
	for _, a := range allAlgorithms {
		r, err := newRedis(a, rdb, Per(4, time.Minute).WithBurst(4), nil)
		require.NoError(t, err)
		bases = append(bases, r)
		for _, n := range []int{1, 1, 9} { // the last is refused
			_, err = r.AllowN(ctx, "key", n)
			note(err)
		}
		_, err = r.Refund(ctx, "key", 1)
		note(err)
		reservation, _, err := r.Reserve(ctx, "key", 2)
		note(err)
		if err == nil {
			_, err = r.Settle(ctx, reservation, 1)
			note(err)
		}
		_, err = r.Charge(ctx, "key", 5)
		note(err)
		_, err = r.Refund(ctx, "key", 9)
		note(err)
		note(r.Reset(ctx, "key"))
		note(AllowEach(ctx, Request{r, "key", 1})[0].Err)
		of := func(key string) *call { return batchCall(r, key, Per(4, time.Minute), 1, take) }
		note(inBatch(t, r, of("one"), of("another")))
	}
	all, err := All(bases...)
	require.NoError(t, err)
	_, err = all.Allow(ctx, "key")
	note(err)
	return errors.Join(errs...)
}
