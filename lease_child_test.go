package ratelimit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	leaseEnv         = "RATELIMIT_TEST_LEASES"
	leaseForEnv      = "RATELIMIT_LEASE" // how long processes lease from each limit, such as 10s
	leaseProcesses   = 8
	leaseSlack       = 4 // ms by which a time of a child may be off
	leaseCallTooLong = 2 * time.Millisecond
	leaseLate        = 10 * time.Second // after a run's time, in which units are still counted by ms
)

// A leaseRun is what a child does with one limiter.
type leaseRun struct {
	Algorithm Algorithm
	Prefix    string
	Limit     Limit
	After     time.Duration // from when all are ready
	For       time.Duration // 0: until a call is refused
}

// A leaseReport is what came of it.
type leaseReport struct {
	Admitted int
	Held     int   // in the block at the end
	ByMilli  []int // those whose time is known to leaseSlack, since the run began
}

var _ = registerChild("lease", func() int {
	if err := leaseInChild(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
})

// leaseInChild begins when it is told, by a line that says when that is.
func leaseInChild() error {
	var runs []leaseRun
	if err := json.Unmarshal([]byte(os.Getenv(leaseEnv)), &runs); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(addrEnv)})
	defer rdb.Close()
	for _, a := range allAlgorithms { // what takes a while the first time
		r, err := newRedis(a, rdb, PerSecond(1), []Option{WithPrefix(runs[0].Prefix)})
		if err != nil {
			return err
		}
		if _, err := r.Peek(context.Background(), "none"); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	var began time.Time
	if err := json.NewDecoder(os.Stdin).Decode(&began); err != nil {
		return err
	}
	var reports []leaseReport
	for i := range runs {
		report, err := runs[i].do(rdb, began.Add(runs[i].After))
		if err != nil {
			return err
		}
		reports = append(reports, report)
	}
	return json.NewEncoder(os.Stdout).Encode(reports)
}

func (run *leaseRun) do(rdb *redis.Client, at time.Time) (report leaseReport, err error) {
	r, err := newRedis(run.Algorithm, rdb, run.Limit, []Option{WithPrefix(run.Prefix)})
	if err != nil {
		return report, err
	}
	l := &Lease{Limiter: r}
	lasts := cmp.Or(run.For, time.Minute)
	report.ByMilli = make([]int, (run.For + leaseLate).Milliseconds())
	time.Sleep(time.Until(at))
	ctx, cancel := context.WithTimeout(context.Background(), lasts) // all of it, also on a machine that was late
	defer cancel()
	failures := make(chan error, 4)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range cap(failures) {
		wg.Go(func() {
			admitted, byMilli := 0, make([]int, len(report.ByMilli))
			failures <- run.calls(ctx, l, func(began, now time.Time) {
				admitted++
				if i := int(now.Sub(at).Milliseconds()); now.Sub(began) < leaseCallTooLong && i < len(byMilli) {
					byMilli[i]++
				}
			})
			mu.Lock()
			defer mu.Unlock()
			report.Admitted += admitted
			for i, n := range byMilli {
				report.ByMilli[i] += n
			}
		})
	}
	wg.Wait()
	for range cap(failures) {
		if err := <-failures; err != nil && (run.For == 0 || !errors.Is(err, context.DeadlineExceeded)) {
			return report, err
		}
	}
	if k := l.table().begin("key").seen; k != nil {
		report.Held = k.block.Load().units(l.keys.now())
	}
	return report, nil
}

// calls makes one call after the other and tells admitted of those that are.
func (run *leaseRun) calls(ctx context.Context, l Limiter, admitted func(began, now time.Time)) error {
	for {
		began := time.Now()
		result, err := l.Allow(ctx, "key")
		switch {
		case err != nil:
			return err
		case result.Allowed:
			admitted(began, time.Now())
		case run.For == 0:
			return nil
		default:
			time.Sleep(min(result.RetryAfter, time.Millisecond))
		}
	}
}
