package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/weirgo/ratelimit"
)

// drawMemory shows how much memory a key takes whose limit is used up.
func drawMemory(addr string) (*sheet, error) {
	if addr == "" {
		started, stop, err := startRedis()
		if err != nil {
			return nil, err
		}
		defer stop()
		addr = started
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	const most = 1_000_000
	p := newPanel(280, time.Second, 30e6)
	p.X.Min, p.X.Max, p.Y.Min = 1, most, 50
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker = decades(1, "1", "10", "100", "1,000", "10,000", "100,000", "1,000,000")
	p.Y.Tick.Marker = decades(100, "100 B", "1 kB", "10 kB", "100 kB", "1 MB", "10 MB")
	for v := 100.0; v <= 1e7; v *= 10 {
		p.line(hair, 0.5, nil, pt(1, v), pt(most, v))
	}
	p.X.Label.Text = "the limit, in units a period"
	p.height += 26
	p.name(ink, "", "MEMORY USAGE of Redis "+rdb.InfoMap(ctx, "server").Item("Server", "redis_version"))

	// The log last, on top of the others where they meet.
	for i, k := range []kind{tokenBucket, leakyBucket, counter, fixedWindow, slidingLog} {
		var points []point
		for decade := 1; decade <= most; decade *= 10 {
			for _, limit := range []int{decade, 2 * decade, 5 * decade} {
				if limit > most {
					continue
				}
				bytes, err := memoryOf(ctx, rdb, k, limit)
				if err != nil {
					return nil, err
				}
				points = append(points, pt(float64(limit), float64(bytes)))
			}
		}
		p.line(k.color, 2, nil, points...)
		labelMemory(p, k, i, points)
	}
	return &sheet{title: "The memory of one key, all of its limit used", panels: []*panel{p}}, nil
}

// decades are ticks at first, ten times first, and so on.
func decades(first float64, labels ...string) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, label := range labels {
		ticks = append(ticks, plot.Tick{Value: first, Label: label})
		first *= 10
	}
	return ticks
}

// labelMemory puts the name of a kind beside its line.
func labelMemory(p *panel, k kind, i int, points []point) {
	s := style(9.5, k.color, true)
	s.YAlign = draw.YBottom
	last := points[len(points)-1]
	switch k.algorithm {
	case ratelimit.SlidingWindowLog:
		s.XAlign = draw.XRight
		p.Add(&label{points[len(points)-4], -6, 4, s, k.name})
	case ratelimit.FixedWindow:
		s.XAlign, s.YAlign = draw.XRight, draw.YTop
		p.Add(&label{last, -2, -3, s, k.name})
	default:
		s.XAlign = draw.XRight
		p.Add(&label{last, -2, 4 + 12*vg.Length(i), s, k.name})
	}
}

// memoryOf is the bytes of a key with a limit used up, in a prefix and under a
// name as long as the default ones.
func memoryOf(ctx context.Context, rdb *redis.Client, k kind, limit int) (int64, error) {
	prefix, key := "plots"+rand.Text()[:4], "user:12345"
	limiter, err := k.make(rdb, ratelimit.PerHour(limit).WithBurst(limit), ratelimit.WithPrefix(prefix))
	if err != nil {
		return 0, err
	}
	for _, n := range []int{limit - 1, 1} { // the second finds a part of a unit come back
		if n == 0 {
			continue
		}
		result, err := limiter.AllowN(ctx, key, n)
		if err != nil {
			return 0, err
		}
		if !result.Allowed {
			return 0, fmt.Errorf("%s with a limit of %d refused %d units", k.name, limit, n)
		}
	}
	bytes, err := rdb.MemoryUsage(ctx, prefix+":"+string(k.algorithm)+":{"+key+"}", 0).Result()
	return bytes, errors.Join(err, limiter.Reset(ctx, key))
}

// startRedis starts a server of its own on a free port of this machine.
func startRedis() (addr string, stop func(), err error) {
	names := []string{"redis-server", "valkey-server"}
	i := slices.IndexFunc(names, func(name string) bool { _, err := exec.LookPath(name); return err == nil })
	if i < 0 {
		return "", nil, errors.New("it needs a real Redis: name one with -redis-addr, or install redis-server or valkey-server")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr = l.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	if err = errors.Join(err, l.Close()); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "plots")
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(names[i], "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "")
	if err := cmd.Start(); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	if err := await(addr); err != nil {
		stop()
		return "", nil, err
	}
	return addr, stop, nil
}

// await waits until a server listens, for 5 s at most.
func await(addr string) error {
	var err error
	for range 100 {
		var conn net.Conn
		if conn, err = (&net.Dialer{Timeout: time.Second}).Dial("tcp", addr); err == nil {
			return conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("the server that was started does not listen: %w", err)
}
