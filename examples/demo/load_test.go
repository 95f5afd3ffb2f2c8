package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

// TestLoad has 32 visitors do everything at once, for DEMO_LOAD_SECONDS (5),
// and then nothing of them may be left. It is not parallel, as it counts.
func TestLoad(t *testing.T) {
	const visitors = 32
	length := 5 * time.Second
	if s := os.Getenv("DEMO_LOAD_SECONDS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err, "DEMO_LOAD_SECONDS must be whole seconds")
		require.Positive(t, n, "DEMO_LOAD_SECONDS")
		length = time.Duration(n) * time.Second
	}
	server := startRedis(t)
	http.DefaultClient.CloseIdleConnections()
	start := count3(t, server.addr)
	d := startDemo(t, server.addr, "")
	d.post("/traffic", map[string]any{"mode": random, "per_second": 200}, http.StatusOK, nil)
	time.Sleep(time.Second)
	http.DefaultClient.CloseIdleConnections()
	idle := count3(t, server.addr)

	var done, events atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var wg sync.WaitGroup
	failures := make(chan error, visitors)
	for range visitors {
		wg.Go(func() {
			if err := visitAll(ctx, d.url, &done, &events); err != nil {
				failures <- err
				cancel()
			}
		})
	}
	time.Sleep(length / 2)
	busy := count3(t, server.addr)
	wg.Wait()
	close(failures)
	require.NoError(t, <-failures)

	settled := func(to counts, slack int) func() bool {
		return func() bool {
			http.DefaultClient.CloseIdleConnections()
			now := count3(t, server.addr)
			return now.goroutines <= to.goroutines+slack && now.files <= to.files+slack
		}
	}
	// The pool of the Redis client may keep its 20 connections, nothing else.
	eventually(t, settled(counts{goroutines: idle.goroutines, files: idle.files + 20}, 3), "the visitors leave something behind")
	after := count3(t, server.addr)
	require.LessOrEqual(t, after.redis, 21)
	d.stop()
	end := count3(t, server.addr)
	eventually(t, settled(start, 0), fmt.Sprintf("the demo leaves something behind: it began with %v and left %v", start, end))
	end = count3(t, server.addr)
	require.Equal(t, start.redis, end.redis)
	t.Logf("%d requests and %d events in %v; before %v, idle %v, busy %v, visitors gone %v, demo stopped %v",
		done.Load(), events.Load(), length, start, idle, busy, after, end)
}

type counts struct{ goroutines, files, redis int }

func (c counts) String() string {
	return fmt.Sprintf("(%d goroutines, %d files and sockets, %d connections at Redis)", c.goroutines, c.files, c.redis)
}

// count3 counts goroutines and open files here, and connections at Redis
// without its own.
func count3(t *testing.T, addr string) counts {
	t.Helper()
	files, err := os.ReadDir("/dev/fd")
	require.NoError(t, err)
	goroutines := runtime.NumGoroutine()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer rdb.Close()
	list, err := rdb.ClientList(t.Context()).Result()
	require.NoError(t, err)
	return counts{goroutines, len(files), strings.Count(list, "\n") - 1}
}

// visitAll is a visitor who does one thing after another, until ctx ends.
func visitAll(ctx context.Context, url string, done, events *atomic.Int64) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for ctx.Err() == nil {
		var err error
		switch rand.IntN(10) {
		case 0:
			body := fmt.Sprintf(`{"rate":%d,"period_ms":%d,"burst":%d}`, 1+rand.IntN(100), 200+rand.IntN(2000), rand.IntN(20))
			_, err = visitPost(ctx, client, url+"/config", body)
		case 1:
			_, err = visitPost(ctx, client, url+"/traffic", `{"mode":"`+modes[rand.IntN(len(modes))]+`"}`)
		case 2:
			_, err = visitPost(ctx, client, url+"/reset", `{}`)
		case 3:
			err = watchFor(ctx, client, url+"/events", rand.N(2*time.Second), events)
		case 4:
			err = checkState(ctx, client, url+"/state")
		default:
			_, err = visitPost(ctx, client, url+"/test", fmt.Sprintf(`{"count":%d}`, 1+rand.IntN(10)))
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		done.Add(1)
	}
	return nil
}

func visitPost(ctx context.Context, client *http.Client, url, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return roundTrip(client, request)
}

func roundTrip(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", request.URL.Path, response.Status, answer)
	}
	return answer, err
}

// checkState holds every state to the promise of the exact algorithm.
func checkState(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := roundTrip(client, request)
	if err != nil {
		return err
	}
	var s state
	if err := json.Unmarshal(answer, &s); err != nil {
		return err
	}
	for _, p := range s.Panels {
		if p.Algorithm == ratelimit.SlidingWindowLog && p.Most > s.Config.Rate {
			return fmt.Errorf("the log let %d through in one period, its limit is %d", p.Most, s.Config.Rate)
		}
	}
	return nil
}

func watchFor(ctx context.Context, client *http.Client, url string, d time.Duration, events *atomic.Int64) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil // time is up
		}
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/events: %s", response.Status)
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := response.Body.Read(buffer)
		events.Add(int64(bytes.Count(buffer[:n], []byte("data: "))))
		if err != nil {
			if ctx.Err() != nil {
				return nil // time is up
			}
			return err
		}
	}
}
