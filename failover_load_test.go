package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A quota is a limiter and a key of it that callers use up.
type quota struct {
	*Redis
	key      string
	admitted atomic.Int64
	unknown  atomic.Int64 // calls that may have been charged: they failed, and not for want of being run
}

// newQuotas is a quota for each algorithm and key, of so many units that do not come back while a test lasts.
func newQuotas(tb testing.TB, rdb redis.UniversalClient, prefix string, units int, keys ...string) []*quota {
	tb.Helper()
	var quotas []*quota
	for _, key := range keys {
		for _, a := range allAlgorithms {
			r, err := newRedis(a, rdb, Per(units, maxPeriod).WithBurst(units), []Option{WithPrefix(prefix)})
			require.NoError(tb, err)
			quotas = append(quotas, &quota{Redis: r, key: key})
		}
	}
	return quotas
}

func (q *quota) String() string { return q.redisKey(q.key) }

// used is how many units are taken in the eyes of one server.
func (q *quota) used(tb testing.TB, rdb redis.UniversalClient) int64 {
	tb.Helper()
	result, err := through(tb, q.Redis, rdb).Peek(tb.Context(), q.key)
	require.NoError(tb, err)
	return int64(result.Limit.capacity(q.algorithm) - result.Remaining)
}

// A quotaCall is what one call came to.
type quotaCall struct {
	quota *quota
	ended time.Time
	err   error
	late  time.Duration // by how much it outlasted its budget
	noise time.Duration // by how much a goroutine did that only waited for the same context
}

// A quotaLoad is callers that ask for one unit after the other, each call within its budget.
type quotaLoad struct {
	callers int
	budget  time.Duration
	gate    sync.RWMutex
	closed  bool
	mu      sync.Mutex
	calls   []quotaCall
	quotas  []*quota
	stop    func()
}

// startQuotaLoad starts callers who go from quota to quota, a call every 10 ms or so each.
func startQuotaLoad(tb testing.TB, callers int, budget time.Duration, quotas []*quota) *quotaLoad {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	l := &quotaLoad{callers: callers, budget: budget, quotas: quotas}
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for next := i * len(quotas) / callers; ctx.Err() == nil; next++ {
				l.gate.RLock()
				_, _ = l.call(quotas[next%len(quotas)], budget) // it is in the records
				l.gate.RUnlock()
				<-pace.C
			}
		})
	}
	l.stop = func() { cancel(); l.open(); wg.Wait() }
	tb.Cleanup(l.stop)
	return l
}

// call asks for one unit, whatever becomes of the load meanwhile.
func (l *quotaLoad) call(q *quota, budget time.Duration) (Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	deadline, _ := ctx.Deadline()
	control := make(chan time.Time, 1)
	go func() { <-ctx.Done(); control <- time.Now() }()
	result, err := q.Allow(ctx, q.key)
	c := quotaCall{quota: q, ended: time.Now(), err: err}
	cancel()
	if woke := <-control; c.ended.After(deadline) {
		c.late, c.noise = c.ended.Sub(deadline), woke.Sub(deadline)
	}
	switch {
	case result.Allowed:
		q.admitted.Add(1)
	case err != nil && !didNotRun(err):
		q.unknown.Add(1)
	}
	l.mu.Lock()
	l.calls = append(l.calls, c)
	l.mu.Unlock()
	return result, err
}

// close waits for the calls under way and lets nobody call until open.
func (l *quotaLoad) close() { l.gate.Lock(); l.closed = true }

func (l *quotaLoad) open() {
	if l.closed {
		l.closed = false
		l.gate.Unlock()
	}
}

// await waits until each of the quotas has been decided about so many times from now on.
func (l *quotaLoad) await(tb testing.TB, times int, quotas []*quota) {
	tb.Helper()
	began := time.Now()
	eventually(tb, 30*time.Second, func(context.Context) error {
		decided := map[*quota]int{}
		for _, c := range l.since(began) {
			if c.err == nil {
				decided[c.quota]++
			}
		}
		for _, q := range quotas {
			if decided[q] < times {
				return fmt.Errorf("%s has had %d decisions", q, decided[q])
			}
		}
		return nil
	})
}

// since is the calls that ended since then.
func (l *quotaLoad) since(then time.Time) []quotaCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	var calls []quotaCall
	for _, c := range l.calls {
		if c.ended.After(then) {
			calls = append(calls, c)
		}
	}
	return calls
}

// drain takes what is left of each quota. A pool that has just seen a server go may refuse to dial for a second.
func (l *quotaLoad) drain(tb testing.TB) {
	tb.Helper()
	deadline := time.Now().Add(10 * time.Second)
	var wg sync.WaitGroup
	errs := make([]error, len(l.quotas))
	for i, q := range l.quotas {
		wg.Go(func() {
			for result := (Result{Allowed: true}); result.Allowed || errs[i] != nil && time.Now().Before(deadline); {
				result, errs[i] = l.call(q, time.Second)
			}
		})
	}
	wg.Wait()
	require.NoError(tb, errors.Join(errs...))
}

// requireInTime requires that no call outlasted its budget by more than 10 ms beyond what a goroutine did that only waited
// for the same context. A stall of the machine may come between the two: once for each caller, and for 1 in 20.
func (l *quotaLoad) requireInTime(tb testing.TB) {
	tb.Helper()
	calls := l.since(time.Time{})
	var late, noise, beyond time.Duration
	unlucky, ended := 0, 0
	for _, c := range calls {
		if c.late > 0 {
			ended++
		}
		late, noise, beyond = max(late, c.late), max(noise, c.noise), max(beyond, c.late-c.noise)
		if c.late-c.noise > 10*time.Millisecond {
			unlucky++
		}
	}
	tb.Logf("%d calls with a budget of %v, %d of them to its end: the latest returned %v after it, the latest goroutine that only waited %v; "+
		"at most %v between the two, %d above 10ms", len(calls), l.budget, ended, round(late), round(noise), round(beyond), unlucky)
	require.LessOrEqual(tb, unlucky, l.callers+ended/20)
	require.Less(tb, beyond, 500*time.Millisecond)
}

// awaitCalm waits until that many calls in a row have had decisions.
func (l *quotaLoad) awaitCalm(tb testing.TB, times int) {
	tb.Helper()
	began := time.Now()
	eventually(tb, 30*time.Second, func(context.Context) error {
		calls := l.since(began)
		if len(calls) < times {
			return fmt.Errorf("%d calls", len(calls))
		}
		for _, c := range calls[len(calls)-times:] {
			if c.err != nil {
				return c.err
			}
		}
		return nil
	})
}

// outage is what calls of quotas came to since the time began: how many failed, when the last of them did, and
// when the first decision came after the time up.
func (l *quotaLoad) outage(began, up time.Time, quotas []*quota) (failed int, last, resumed time.Time) {
	for _, c := range l.since(began) {
		switch {
		case !slices.Contains(quotas, c.quota):
		case c.err != nil:
			failed++
			last = c.ended
		case resumed.IsZero() && c.ended.After(up):
			resumed = c.ended
		}
	}
	return failed, last, resumed
}

// failures is how many calls failed of what, most first.
func (l *quotaLoad) failures(quotas []*quota) string {
	counts := map[string]int{}
	for _, c := range l.since(time.Time{}) {
		if c.err != nil && slices.Contains(quotas, c.quota) {
			counts[kindOf(c.err)]++
		}
	}
	var kinds []string
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return cmp.Or(strings.Join(kinds, ", "), "none")
}

func kindOf(err error) string {
	var op *net.OpError
	var said redis.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case errors.As(err, &said):
		kind, _, _ := strings.Cut(said.Error(), " ")
		return kind
	case errors.As(err, &op):
		return op.Op
	case errors.Is(err, io.EOF):
		return "EOF"
	}
	return err.Error()
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
