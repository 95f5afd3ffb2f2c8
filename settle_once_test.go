package ratelimit

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// settleAtOnce settles a reservation from many goroutines, through each of some
// limiters: one does, and all others are told.
func settleAtOnce(t *testing.T, r Reservation, used int, through ...Base) (settled int64) {
	t.Helper()
	var once, told, others atomic.Int64
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range 32 {
		wg.Go(func() {
			<-begin
			_, err := through[i%len(through)].Settle(t.Context(), r, used)
			switch {
			case err == nil:
				once.Add(1)
			case errors.Is(err, ErrSettled):
				told.Add(1)
			default:
				others.Add(1)
			}
		})
	}
	close(begin)
	wg.Wait()
	require.EqualValues(t, 32, once.Load()+told.Load())
	require.Zero(t, others.Load())
	return once.Load()
}

// Many goroutines of three processes settle a reservation at once.
func TestSettledOnceByProcesses(t *testing.T) {
	t.Parallel()
	prefix := uniqueKey(t)
	clerks := []*clerk{hire(t, prefix), hire(t, prefix)}
	for _, a := range allAlgorithms {
		b, err := newRedis(a, sharedRedis(t), bookLimits(a), []Option{WithPrefix(prefix)})
		require.NoError(t, err)
		for i := range 10 {
			key := strconv.Itoa(i)
			r, _, err := b.Reserve(t.Context(), key, 8)
			require.NoError(t, err)
			used := []int{0, 5, 8, 14}[i%4]
			var replies [32]<-chan report
			for j := range replies {
				replies[j] = clerks[j%2].send(t, order{Algorithm: a, Settle: &r, Used: used})
			}
			settled := int(settleAtOnce(t, r, used, b))
			for j, reply := range replies {
				if !clerks[j%2].await(t, reply).Settled {
					settled++
				}
			}
			require.Equal(t, 1, settled, "%s", a)
			require.Equal(t, used, usedUnits(t, b, key, 20), "%s", a)
			require.NoError(t, b.Reset(t.Context(), key))
		}
	}
}

func TestSettledOnceInMemory(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		m := newMemory(t, a, bookLimits(a))
		for i := range 50 {
			key := strconv.Itoa(i)
			r, _, err := m.Reserve(t.Context(), key, 8)
			require.NoError(t, err)
			require.EqualValues(t, 1, settleAtOnce(t, r, 14, m), "%s", a)
			require.Equal(t, 14, usedUnits(t, m, key, 20))
		}
	}
}

// On a cluster too, by two clients, and also while the scripts are forgotten.
func TestSettledOnceOnCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 0)
	one, other := c.Client(t), c.Client(t)
	for _, a := range allAlgorithms {
		var through []Base
		for _, rdb := range []redis.UniversalClient{one, other} {
			b, err := newRedis(a, rdb, bookLimits(a), nil)
			require.NoError(t, err)
			through = append(through, b)
		}
		for i := range 10 {
			key := strconv.Itoa(i)
			r, _, err := through[0].Reserve(t.Context(), key, 8)
			require.NoError(t, err)
			require.NoError(t, one.ScriptFlush(t.Context()).Err())
			require.EqualValues(t, 1, settleAtOnce(t, r, 3, through...), "%s", a)
			require.Equal(t, 3, usedUnits(t, through[1], key, 20))
		}
	}
}

// The reply to a settlement is lost: the caller repeats it and is told that it is
// settled, and it has been so once. A lost reply to a reservation leaves it taken.
func TestSettlementWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	for _, cutAfter := range []bool{false, true} {
		for _, a := range allAlgorithms {
			t.Run(string(a)+"/cut_"+strconv.FormatBool(cutAfter), func(t *testing.T) {
				t.Parallel()
				proxy := startProxy(t, sharedAddr())
				rdb := newClient(t, &redis.Options{Addr: proxy.Addr(), ReadTimeout: 200 * time.Millisecond})
				b, err := newRedis(a, rdb, bookLimits(a), []Option{WithPrefix(uniqueKey(t))})
				require.NoError(t, err)
				used := 0
				for _, n := range []int{2, 6} { // less and more
					r, _, err := b.Reserve(t.Context(), "key", 4)
					require.NoError(t, err)
					before := proxy.dropped()
					proxy.dropReplyTo("evalsha", cutAfter)
					_, err = b.Settle(t.Context(), r, n)
					require.Error(t, err)
					require.NotErrorIs(t, err, ErrSettled)
					require.Equal(t, 1, proxy.dropped()-before, "it was sent once")
					proxy.dropReplyTo("", false)
					_, err = b.Settle(t.Context(), r, n)
					require.ErrorIs(t, err, ErrSettled)
					used += n
					requireRemaining(t, 20-used, b, "key")
				}
				proxy.dropReplyTo("evalsha", cutAfter)
				lost, _, err := b.Reserve(t.Context(), "key", 4)
				require.Error(t, err)
				require.Zero(t, lost)
				proxy.dropReplyTo("", false)
				requireRemaining(t, 20-used-4, b, "key")
			})
		}
	}
}

// Scripts that the server has forgotten are never seen by the caller.
func TestReservationsAfterScriptFlush(t *testing.T) {
	t.Parallel()
	rdb := startServer(t).Client(t)
	for _, a := range allAlgorithms {
		b, err := newRedis(a, rdb, bookLimits(a), nil)
		require.NoError(t, err)
		flush := func() { require.NoError(t, rdb.ScriptFlush(t.Context()).Err()) }
		flush()
		r, _, err := b.Reserve(t.Context(), "key", 8)
		require.NoError(t, err)
		flush()
		result, err := b.Settle(t.Context(), r, 3)
		require.NoError(t, err)
		require.Equal(t, 17, result.Remaining)
		flush()
		_, err = b.Settle(t.Context(), r, 3)
		require.ErrorIs(t, err, ErrSettled)
		require.Equal(t, 3, usedUnits(t, b, "key", 20))
	}
}
