package ratelimit

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A tower is a lane whose flights the test lets land. A call is answered by the
// number in its name.
type tower struct {
	lane     *lane
	takeoff  chan []string // the names on each flight
	land     chan error    // what its calls come back with
	asked    sync.Map      // how often each name was decided
	contexts chan context.Context
}

func newTower(flights, batch int) *tower {
	w := &tower{takeoff: make(chan []string, 10_000), land: make(chan error), contexts: make(chan context.Context, 10_000)}
	w.lane = &lane{flights: flights, batch: batch, decide: func(ctx context.Context, calls []*call) {
		var names []string
		for _, c := range calls {
			names = append(names, c.name)
			n, _ := w.asked.LoadOrStore(c.name, new(atomic.Int32))
			n.(*atomic.Int32).Add(1)
		}
		w.takeoff <- names
		w.contexts <- ctx
		err := <-w.land
		for _, c := range calls {
			c.answer.remaining, _ = strconv.ParseInt(c.name, 10, 64)
			c.err = err
		}
	}}
	return w
}

// call calls in the background.
func (w *tower) call(ctx context.Context, name string) (done chan error) {
	return w.callIn(ctx, name, take)
}

func (w *tower) callIn(ctx context.Context, name string, m mode) (done chan error) {
	done = make(chan error, 1)
	go func() {
		c := newCall()
		c.name, c.q.mode = name, m
		left, err := w.lane.do(ctx, c)
		if !left {
			if want, _ := strconv.ParseInt(name, 10, 64); err == nil && c.answer.remaining != want {
				err = errors.New("the answer of another call")
			}
			c.recycle()
		}
		done <- err
	}()
	return done
}

func (w *tower) times(name string) int {
	n, ok := w.asked.Load(name)
	if !ok {
		return 0
	}
	return int(n.(*atomic.Int32).Load())
}

func (w *tower) state() (counted, running, waiting, aboard int) {
	w.lane.mu.Lock()
	defer w.lane.mu.Unlock()
	return w.lane.counted, w.lane.running, w.lane.waiting, w.lane.aboard
}

// requireEmpty requires that nothing of a lane is left.
func (w *tower) requireEmpty(t *testing.T) {
	t.Helper()
	synctest.Wait()
	counted, running, waiting, aboard := w.state()
	require.Equal(t, []int{0, 0, 0, 0}, []int{counted, running, waiting, aboard})
}

// Calls take off at once while few flights are under way, and then wait for the
// next, in their order.
func TestLaneTakesOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTower(2, 3)
		var calls []chan error
		for i := range 8 {
			calls = append(calls, w.call(t.Context(), strconv.Itoa(i)))
			synctest.Wait()
		}
		require.Equal(t, []string{"0"}, <-w.takeoff)
		require.Equal(t, []string{"1"}, <-w.takeoff)
		require.Empty(t, w.takeoff, "a third flight took off")
		w.land <- nil
		require.Equal(t, []string{"2", "3", "4"}, <-w.takeoff)
		w.land <- nil
		require.Equal(t, []string{"5", "6", "7"}, <-w.takeoff)
		w.land <- nil
		w.land <- nil
		for _, done := range calls {
			require.NoError(t, <-done)
		}
		w.requireEmpty(t)
	})
}

// The share of a flight is that of all calls under way, so that flights are alike.
func TestLaneShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTower(maxFlights, maxBatch)
		var calls []chan error
		for i := range maxFlights + 100 {
			calls = append(calls, w.call(t.Context(), strconv.Itoa(i)))
			synctest.Wait()
		}
		for range maxFlights {
			require.Len(t, <-w.takeoff, 1)
		}
		w.land <- nil
		require.Len(t, <-w.takeoff, 34)
		inAir := maxFlights // of which any may land
		for rest := 100 - 34; rest > 0; {
			w.land <- nil
			synctest.Wait()
			inAir--
			for len(w.takeoff) > 0 {
				n := len(<-w.takeoff)
				require.GreaterOrEqual(t, n, min(minBatch, rest))
				rest -= n
				inAir++
			}
		}
		for range inAir {
			w.land <- nil
		}
		for _, done := range calls {
			require.NoError(t, <-done)
		}
		w.requireEmpty(t)
	})
}

// Only calls of one mode are on a flight.
func TestLaneKeepsModesApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTower(1, 10)
		var calls []chan error
		for i, m := range []mode{take, peek, peek, charge, take, take} {
			calls = append(calls, w.callIn(t.Context(), strconv.Itoa(i), m))
			synctest.Wait()
		}
		for _, want := range [][]string{{"0"}, {"1", "2"}, {"3"}, {"4", "5"}} {
			require.Equal(t, want, <-w.takeoff)
			w.land <- nil
		}
		for _, done := range calls {
			require.NoError(t, <-done)
		}
		w.requireEmpty(t)
	})
}

// Who leaves while waiting is never asked for; who leaves in the air comes back
// at once; the others are not troubled.
func TestLaneLetsCallersLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTower(1, 10)
		first := w.call(t.Context(), "0")
		synctest.Wait()
		waiting, leaveQueue := context.WithCancel(t.Context())
		flying, leaveFlight := context.WithCancel(t.Context())
		queued, aboard, other := w.call(waiting, "1"), w.call(flying, "2"), w.call(t.Context(), "3")
		synctest.Wait()
		leaveQueue()
		require.ErrorIs(t, <-queued, context.Canceled)
		w.land <- nil
		require.NoError(t, <-first)
		<-w.takeoff
		<-w.contexts
		require.ElementsMatch(t, []string{"2", "3"}, <-w.takeoff)
		ctx := <-w.contexts
		leaveFlight()
		require.ErrorIs(t, <-aboard, context.Canceled)
		require.NoError(t, ctx.Err(), "one caller's end is not the others'")
		w.land <- nil
		require.NoError(t, <-other)
		require.Zero(t, w.times("1"))
		w.requireEmpty(t)
	})
}

// A flight has the last deadline of its callers, or none if one of them has none.
func TestLaneDeadlines(t *testing.T) {
	t.Parallel()
	for deadlines, want := range map[int]time.Duration{2: 2 * time.Second, 1: 0, 0: 0} { // of how many of the two
		synctest.Test(t, func(t *testing.T) {
			w := newTower(1, 10)
			began := time.Now()
			calls := []chan error{w.call(t.Context(), "0")}
			synctest.Wait()
			for i := range 2 {
				ctx := t.Context()
				if i < deadlines {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Duration(i+1)*time.Second)
					t.Cleanup(cancel)
				}
				calls = append(calls, w.call(ctx, "1"))
			}
			synctest.Wait()
			w.land <- nil
			<-w.contexts
			deadline, ok := (<-w.contexts).Deadline()
			require.Equal(t, want > 0, ok)
			if ok {
				require.Equal(t, want, deadline.Sub(began))
			}
			w.land <- nil
			for _, done := range calls {
				require.NoError(t, <-done)
			}
			w.requireEmpty(t)
		})
	}
}

// A flight whose callers have all gone holds nobody up, and its context ends.
func TestLaneForgetsLostFlights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTower(1, 10)
		first := w.call(t.Context(), "0")
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		one, two := w.call(ctx, "1"), w.call(ctx, "2")
		synctest.Wait()
		w.land <- nil
		require.NoError(t, <-first)
		require.ErrorIs(t, <-one, context.DeadlineExceeded)
		require.ErrorIs(t, <-two, context.DeadlineExceeded)
		<-w.takeoff
		<-w.contexts
		require.Len(t, <-w.takeoff, 2)
		require.Error(t, (<-w.contexts).Err())

		after := w.call(t.Context(), "3")
		synctest.Wait()
		require.Equal(t, []string{"3"}, <-w.takeoff)
		w.land <- nil
		w.land <- nil
		require.NoError(t, <-after)
		w.requireEmpty(t)
	})
}

// Calls behind flights that do not come back wait for patience to end, twice at
// most, and then one more takes off.
func TestLaneLosesPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTower(2, 10)
		calls := []chan error{w.call(t.Context(), "0"), w.call(t.Context(), "1")}
		synctest.Wait()
		<-w.takeoff
		<-w.takeoff
		began := time.Now()
		calls = append(calls, w.call(t.Context(), "2"), w.call(t.Context(), "3"))
		require.ElementsMatch(t, []string{"2", "3"}, <-w.takeoff)
		require.LessOrEqual(t, time.Since(began), 2*patience)
		counted, running, _, _ := w.state()
		require.Equal(t, 2, counted)
		require.Equal(t, 3, running)
		for range 3 {
			w.land <- nil
		}
		for _, done := range calls {
			require.NoError(t, <-done)
		}
		time.Sleep(2 * patience)
		w.requireEmpty(t)
		require.False(t, w.lane.watching)
	})
}

// However many callers come and go while nothing lands, there are no more than
// maxInFlight flights.
func TestLaneIsBounded(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*tower{"together": newTower(maxFlights, maxBatch), "apart": newTower(maxInFlight, 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var wg sync.WaitGroup
			for i := range 3 * maxInFlight {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
					defer cancel()
					if err := <-l.call(ctx, strconv.Itoa(i)); err == nil {
						t.Error("it has landed")
					}
				})
			}
			wg.Wait()
			_, running, waiting, _ := l.state()
			require.LessOrEqual(t, running, maxInFlight)
			require.Zero(t, waiting)
			eventually(t, 5*time.Second, func(context.Context) error {
				for flying := true; flying; { // some end by themselves, if their callers had gone before they took off
					select {
					case l.land <- nil:
					case <-time.After(10 * time.Millisecond):
						flying = false
					}
				}
				if _, running, _, _ := l.state(); running > 0 {
					return errors.New(strconv.Itoa(running) + " flights are left")
				}
				return nil
			})
		})
	}
}

// A client that panics or ends its goroutine gives every caller an error, and
// the lane goes on.
func TestLaneSurvivesTheClient(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){
		"panic": func() { panic("a hook's mistake") },
		"ended": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTower(1, 10)
				decide, flights := w.lane.decide, 0
				w.lane.decide = func(ctx context.Context, calls []*call) {
					decide(ctx, calls)
					flights++
					if flights <= 2 {
						end()
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first := w.call(ctx, "0")
				synctest.Wait()
				calls := []chan error{w.call(ctx, "1"), w.call(ctx, "2")}
				synctest.Wait()
				w.land <- nil
				require.Error(t, <-first)
				require.Len(t, <-w.takeoff, 1)
				require.Len(t, <-w.takeoff, 2)
				last := w.call(ctx, "3")
				synctest.Wait()
				w.land <- nil
				for _, done := range calls {
					require.Error(t, <-done)
				}
				w.land <- nil
				require.NoError(t, <-last)
				w.requireEmpty(t)
			})
		})
	}
}
