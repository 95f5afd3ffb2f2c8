package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit/examples/internal/redistest"
)

// 32 clients, for 2 s or NETHTTP_LOAD_SECONDS: every answer is a decision, no
// more pass than the limits allow, and nothing is left behind.
func TestLoad(t *testing.T) {
	seconds := 2
	if s := os.Getenv("NETHTTP_LOAD_SECONDS"); s != "" {
		var err error
		seconds, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	addr := redistest.Addr(t, "nethttp")
	before := runtime.NumGoroutine()

	rdb := redis.NewClient(&redis.Options{Addr: addr})
	limited, err := handler(rdb)
	require.NoError(t, err)
	server := httptest.NewServer(limited)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

	var answers [600]atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for i := range 32 {
		wg.Go(func() {
			for time.Since(began) < time.Duration(seconds)*time.Second {
				method, path := http.MethodGet, "/"
				if i%2 == 1 {
					method, path = http.MethodPost, "/login"
				}
				status, err := ask(client, method, server.URL+path)
				if err != nil {
					t.Error(err)
					return
				}
				answers[status].Add(1)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	busy, connections := runtime.NumGoroutine(), rdb.PoolStats().TotalConns

	server.Close()
	client.CloseIdleConnections()
	require.NoError(t, rdb.Close())
	passed, refused := answers[http.StatusOK].Load(), answers[http.StatusTooManyRequests].Load()
	t.Logf("%d passed and %d refused in %v; %d goroutines before, %d busy; %d connections to Redis",
		passed, refused, elapsed.Round(time.Second), before, busy, connections)

	// The bucket holds 10 and gets 30 a minute, and who logs in takes from it too.
	require.LessOrEqual(t, passed, 10+int64(elapsed.Minutes()*30)+1)
	require.Positive(t, passed)
	require.Positive(t, refused)
	var all int64
	for status := range answers {
		all += answers[status].Load()
	}
	require.Equal(t, passed+refused, all, "every answer is a decision")
	require.LessOrEqual(t, connections, uint32(10*runtime.GOMAXPROCS(0)), "the pool's size")
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 10*time.Millisecond,
		"goroutines are left")
}

func ask(client *http.Client, method, url string) (status int, err error) {
	request, err := http.NewRequest(method, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if response.StatusCode >= 600 {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	return response.StatusCode, errors.Join(err, response.Body.Close())
}
