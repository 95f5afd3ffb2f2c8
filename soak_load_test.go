package ratelimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A soakLoad is the callers of a soak, and what they saw.
type soakLoad struct {
	soak
	limiters []*Redis
	began    time.Time
	turn     atomic.Int64
	gate     sync.RWMutex // held for a call, and by who takes a sample

	mu    sync.Mutex
	tally *soakTally
}

// soakPatience is the deadline of each call. Nothing slower is expected of a
// busy machine, and with faults it shows that callers come back.
const soakPatience = 5 * time.Second

func (s soak) run(faults func()) (result soakResult, err error) {
	result.Begin = runtime.NumGoroutine()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	watch := redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: 1})
	defer watch.Close()
	defer rdb.Close()
	w := &soakWatch{load: &soakLoad{soak: s, began: time.Now()}, rdb: rdb, watch: watch}
	for _, a := range allAlgorithms {
		r, err := newRedis(a, rdb, Per(2, s.Period).WithBurst(2), nil)
		if err != nil {
			return result, err
		}
		w.load.limiters = append(w.load.limiters, r)
	}
	if result.Start, err = w.sample(); err != nil {
		return result, err
	}

	w.load.tally = &result.Calm
	stop := w.load.start()
	// On a machine that stands still now and then, it takes longer to see enough.
	for time.Since(w.load.began) < s.Lasts || len(steady(result.Samples, s.Period)) < 2*s.some() {
		time.Sleep(s.Every)
		sample, err := w.sample()
		if err != nil {
			return result, err
		}
		result.Samples = append(result.Samples, sample)
	}
	stop()
	if result.AfterCalm, err = w.empty(); err != nil {
		return result, err
	}

	w.load.tally = &result.Faulty
	stop = w.load.start()
	faults()
	time.Sleep(s.Period)
	stop()
	if result.AfterFaults, err = w.empty(); err != nil {
		return result, err
	}
	result.Immortal = w.immortal

	if err = errors.Join(rdb.Close(), watch.Close()); err != nil {
		return result, err
	}
	for range 500 { // a goroutine that has been told to end needs a moment
		if result.End = runtime.NumGoroutine(); result.End <= result.Begin {
			return result, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	result.Stacks = string(stacks[:runtime.Stack(stacks, true)])
	return result, nil
}

// start starts the callers. What it returns stops them.
func (l *soakLoad) start() (stop func()) {
	began := time.Now()
	var done atomic.Bool
	var callers sync.WaitGroup
	for range l.Callers {
		callers.Go(func() {
			for !done.Load() {
				l.gate.RLock()
				l.call()
				l.gate.RUnlock()
			}
		})
	}
	return func() {
		done.Store(true)
		callers.Wait()
		l.tally.Lasted = time.Since(began)
	}
}

func (l *soakLoad) call() {
	ctx, cancel := context.WithTimeout(context.Background(), soakPatience)
	defer cancel()
	limiter, key := l.next()
	var result Result
	var err error
	began := time.Now()
	switch rand.IntN(16) {
	case 0:
		result, err = limiter.Peek(ctx, key)
	case 1:
		result, err = limiter.AllowN(ctx, key, 2)
	default:
		result, err = limiter.Allow(ctx, key)
	}
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.add(result, err, took)
}

// next is now and then a key that all callers ask for, else the next of those
// whose turn it is: for a Period each.
func (l *soakLoad) next() (r *Redis, key string) {
	if rand.IntN(8) == 0 {
		return l.limiters[rand.IntN(len(l.limiters))], "hot:" + strconv.Itoa(rand.IntN(16))
	}
	active := l.Keys / keysAround
	first := int(float64(time.Since(l.began)) / float64(l.Period) * float64(active))
	n := (first + int(l.turn.Add(1))%active) % l.Keys
	return l.limiters[n%len(l.limiters)], "user:" + strconv.Itoa(n)
}
