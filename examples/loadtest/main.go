// Loadtest sends a spike of requests to a web server behind each of the five
// algorithms, where one fixed window ends and the next begins.
//
//	go run ./loadtest [-redis-addr host:port]
//
// Without an address it takes the Redis at localhost:6379, or one of its own if
// none answers there. It asks only the servers that it starts itself, on
// loopback: 121 requests for each algorithm, at most 200 a second.
package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

var limit = ratelimit.PerSecond(50)

func main() {
	os.Exit(run(os.Args[1:], usualAddr, os.Stdout, os.Stderr))
}

// compare spikes all five, one after the other, and shows what passed.
func compare(rdb redis.UniversalClient, stdout io.Writer) error {
	fmt.Fprintf(stdout, header, limit)
	for _, algorithm := range []struct {
		name string
		make func(redis.UniversalClient, ratelimit.Limits, ...ratelimit.Option) (*ratelimit.Redis, error)
	}{
		{"token bucket", ratelimit.NewTokenBucket},
		{"leaky bucket", ratelimit.NewLeakyBucket},
		{"fixed window", ratelimit.NewFixedWindow},
		{"sliding window log", ratelimit.NewSlidingWindowLog},
		{"sliding window counter", ratelimit.NewSlidingWindowCounter},
	} {
		limiter, err := algorithm.make(rdb, limit, ratelimit.WithPrefix("loadtest"))
		if err != nil {
			return err
		}
		admitted, err := attack(limiter)
		if err != nil {
			return fmt.Errorf("%s: %w", algorithm.name, err)
		}
		most := mostWithin(limit.Period, admitted)
		fmt.Fprintf(stdout, "%-24s%s%7d  %s\n", algorithm.name, bars(admitted), most, strings.Repeat("█", (most+2)/5))
	}
	fmt.Fprint(stdout, footer)
	return nil
}

const header = `
Each limiter allows %v. A first request begins its window, if it has
windows. From 0.7 s to 1.3 s come 120 more, half of them before that window ends.

                        admitted per 100 ms        most in one second
                        0 s                 1 s       the limit: 50 ┐
`

const footer = `
On the left a full block is all of 20 requests; on the right a block is 5.
`

// attack spikes a server behind limiter. It returns the requests let through.
func attack(limiter ratelimit.Limiter) ([]*vegeta.Result, error) {
	key := rand.Text() // nobody else's; it is gone from Redis in 2 s
	limited := httplimit.Middleware{
		Limiter: limiter,
		Key:     func(*http.Request) string { return key },
		Timeout: time.Second,
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: limited.Handler(hello), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	target := vegeta.NewStaticTargeter(vegeta.Target{Method: http.MethodGet, URL: "http://" + listener.Addr().String()})
	attacker := vegeta.NewAttacker(vegeta.MaxWorkers(50), vegeta.Timeout(2*time.Second), vegeta.KeepAlive(true))
	var admitted []*vegeta.Result
	for r := range attacker.Attack(target, spike{}, 2*time.Second, "") {
		switch r.Code {
		case http.StatusOK:
			admitted = append(admitted, r)
		case http.StatusTooManyRequests:
		default:
			err = errors.New(r.Error)
		}
	}
	slices.SortFunc(admitted, func(a, b *vegeta.Result) int { return a.Timestamp.Compare(b.Timestamp) })
	return admitted, err
}

// spike is one request, and from 0.7 s on 120, one each 5 ms.
type spike struct{}

const interval = 5 * time.Millisecond

// Pace tells when the next request is due, after hits of them.
func (spike) Pace(elapsed time.Duration, hits uint64) (wait time.Duration, stop bool) {
	if hits == 0 {
		return 0, false
	}
	return 700*time.Millisecond + time.Duration(hits-1)*interval - elapsed, hits > 120
}

// Rate is the most requests a second, which vegeta wants to know.
func (spike) Rate(time.Duration) float64 { return float64(time.Second / interval) }
