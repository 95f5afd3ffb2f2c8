package ratelimit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// An order is a line that a reserving process gets: to reserve units of a key,
// or to settle a reservation.
type order struct {
	ID        int
	Algorithm Algorithm
	Key       string
	Reserve   int
	Settle    *Reservation
	Used      int
	Crash     bool // before it reports
}

// A report is the line with which it answers an order.
type report struct {
	ID          int
	Reservation Reservation
	Result      Result
	Settled     bool   // the error is ErrSettled
	Err         string // any other error
}

// bookLimits are those of a test of reservations in which no time passes that
// matters: 20 units, of which none comes back by itself.
func bookLimits(a Algorithm) Limit {
	const year = 366 * 24 * time.Hour
	if a == TokenBucket || a == LeakyBucket {
		return Per(1, year).WithBurst(20)
	}
	return Per(20, year)
}

const clerkEnv = "RATELIMIT_TEST_CLERK"

// A clerk reserves and settles for its parent. It carries out all orders at once.
var _ = registerChild("clerk", func() int {
	name := os.Getenv(clerkEnv)
	prefix, _, _ := strings.Cut(name, "/")
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(addrEnv), ClientName: name})
	defer rdb.Close()
	limiters := map[Algorithm]*Redis{}
	for _, a := range allAlgorithms {
		r, err := newRedis(a, rdb, bookLimits(a), []Option{WithPrefix(prefix)})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		limiters[a] = r
	}
	var out sync.Mutex
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		go func() {
			text, _ := json.Marshal(o.carryOut(limiters[o.Algorithm]))
			if o.Crash {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			out.Lock()
			defer out.Unlock()
			fmt.Println(string(text))
		}()
	}
	return 0
})

func (o order) carryOut(b Base) report {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	said := report{ID: o.ID}
	var err error
	if o.Settle != nil {
		said.Result, err = b.Settle(ctx, *o.Settle, o.Used)
	} else {
		said.Reservation, said.Result, err = b.Reserve(ctx, o.Key, o.Reserve)
	}
	if said.Settled = errors.Is(err, ErrSettled); err != nil && !said.Settled {
		said.Err = err.Error()
	}
	return said
}

// A clerk is that process as its parent sees it.
type clerk struct {
	cmd   *exec.Cmd
	name  string // of its connections
	stdin io.WriteCloser
	ended chan struct{} // closed when nothing more comes

	mu      sync.Mutex
	last    int
	waiting map[int]chan report
}

// hire starts a clerk that works with limiters of that prefix.
func hire(t *testing.T, prefix string) *clerk {
	t.Helper()
	c := &clerk{
		cmd:     childCommand(t.Context(), "clerk"),
		name:    prefix + "/" + uniqueKey(t),
		ended:   make(chan struct{}),
		waiting: map[int]chan report{},
	}
	c.cmd.Env = append(c.cmd.Env, clerkEnv+"="+c.name)
	c.cmd.Stderr = os.Stderr
	var err error
	c.stdin, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go c.listen(stdout)
	t.Cleanup(func() {
		_ = c.stdin.Close()
		<-c.ended
		_ = c.cmd.Wait()
	})
	return c
}

func (c *clerk) listen(stdout io.Reader) {
	defer close(c.ended)
	for in := bufio.NewScanner(stdout); in.Scan(); {
		var said report
		if err := json.Unmarshal(in.Bytes(), &said); err != nil {
			said.Err = err.Error()
		}
		c.mu.Lock()
		if w := c.waiting[said.ID]; w != nil {
			delete(c.waiting, said.ID)
			w <- said
		}
		c.mu.Unlock()
	}
}

// send gives an order, and returns where its report will come.
func (c *clerk) send(t *testing.T, o order) <-chan report {
	t.Helper()
	reply := make(chan report, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	o.ID = c.last
	c.waiting[o.ID] = reply
	text, err := json.Marshal(o)
	require.NoError(t, err)
	_, err = c.stdin.Write(append(text, '\n'))
	require.NoError(t, err)
	return reply
}

// await is the report that comes.
func (c *clerk) await(t *testing.T, reply <-chan report) report {
	t.Helper()
	select {
	case said := <-reply:
		require.Empty(t, said.Err)
		return said
	case <-c.ended:
		require.FailNow(t, "the process has ended")
	case <-time.After(time.Minute):
		require.FailNow(t, "the process does not answer")
	}
	return report{}
}

// kill ends the clerk as a crash would.
func (c *clerk) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGKILL))
}

// awaitEnd returns when the clerk has ended and the server has done all
// that it will ever do for it.
func (c *clerk) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(time.Minute):
		require.FailNow(t, "the process does not end")
	}
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		clients, err := sharedRedis(t).ClientList(ctx).Result()
		if err == nil && strings.Contains(clients, "name="+c.name+" ") {
			err = errors.New("process " + strconv.Itoa(c.cmd.Process.Pid) + " is still connected")
		}
		return err
	})
}
