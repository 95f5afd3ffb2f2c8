package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

// show asks h and prints the status, and what the answer says of limits.
func show(h http.Handler, r *http.Request) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer := w.Result()
	defer answer.Body.Close()
	fmt.Println(answer.Status)
	for _, field := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
		for _, value := range answer.Header.Values(field) {
			fmt.Printf("  %s: %s\n", field, value)
		}
	}
}

// One limit for everything that a mux serves, for each client address. A program
// would take a limiter on Redis, as of ratelimit.NewTokenBucket.
func Example() {
	limiter, err := ratelimit.NewMemory(ratelimit.FixedWindow, ratelimit.PerHour(2))
	if err != nil {
		log.Fatal(err)
	}

	limit := httplimit.Middleware{
		Limiter: limiter,
		Key:     httplimit.ByRemoteAddr,
		Timeout: 100 * time.Millisecond,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	handler := limit.Handler(mux) // for http.ListenAndServe(":8080", handler)

	for range 3 {
		show(handler, httptest.NewRequest(http.MethodGet, "/hello", http.NoBody))
	}
	// Output:
	// 200 OK
	//   RateLimit-Policy: "default";q=2;w=3600
	//   RateLimit: "default";r=1;t=3600;a=1;w=3600
	// 200 OK
	//   RateLimit-Policy: "default";q=2;w=3600
	//   RateLimit: "default";r=0;t=3600;a=0;w=3600
	// 429 Too Many Requests
	//   RateLimit-Policy: "default";q=2;w=3600
	//   RateLimit: "default";r=0;t=3600;a=0;w=3600
	//   Retry-After: 3600
}

// Each client may call each route so often, whatever it calls elsewhere. The
// routes are wrapped, and not the mux, as the pattern is known only behind it.
func Example_perRoute() {
	limiter, err := ratelimit.NewMemory(ratelimit.FixedWindow, ratelimit.PerHour(1))
	if err != nil {
		log.Fatal(err)
	}
	limit := httplimit.Middleware{
		Limiter: limiter,
		Key:     httplimit.Join(httplimit.ByRemoteAddr, httplimit.ByPattern),
	}

	mux := http.NewServeMux()
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	mux.Handle("GET /items/{id}", limit.Handler(hello))
	mux.Handle("GET /users/{id}", limit.Handler(hello))

	for _, path := range []string{"/items/1", "/items/2", "/users/1"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /items/1 200
	// /items/2 429
	// /users/1 200
}

// Several limits on one request, each with a name. The first that refuses
// answers.
func Example_severalLimits() {
	middleware := func(name string, l ratelimit.Limit) httplimit.Middleware {
		limiter, err := ratelimit.NewMemory(ratelimit.FixedWindow, l)
		if err != nil {
			log.Fatal(err)
		}
		return httplimit.Middleware{Name: name, Limiter: limiter, Key: httplimit.ByRemoteAddr}
	}
	minute := middleware("minute", ratelimit.PerMinute(10))
	day := middleware("day", ratelimit.PerDay(500))
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })

	show(minute.Handler(day.Handler(hello)), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	// Output:
	// 200 OK
	//   RateLimit-Policy: "minute";q=10;w=60
	//   RateLimit-Policy: "day";q=500;w=86400
	//   RateLimit: "minute";r=9;t=60;a=9;w=60
	//   RateLimit: "day";r=499;t=86400;a=499;w=86400
}

// Behind proxies, the client is who has called the first of them.
func ExampleClientIP() {
	clients := httplimit.ClientIP{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}

	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = "10.0.0.1:4711"                                        // a load balancer
	r.Header.Set("X-Forwarded-For", "1.2.3.4, 2001:db8:1:2::7, 10.0.0.2") // the client made up the first
	fmt.Println(clients.Key(r))

	r.RemoteAddr = "198.51.100.9:4711" // no proxy of ours: whatever it sends
	fmt.Println(clients.Key(r))
	// Output:
	// ip:2001:db8:1:2::/64
	// ip:198.51.100.9
}

// Known clients by their API key, all others by their address.
func ExampleFirst() {
	key := httplimit.First(httplimit.ByHeader("X-Api-Key"), httplimit.ByRemoteAddr)

	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	fmt.Println(key(r))
	r.Header.Set("X-Api-Key", "correct horse")
	fmt.Println(key(r))
	// Output:
	// ip:192.0.2.1
	// header:X-Api-Key:4104d36f8da2c254349f85836793ebe0
}

// With Redis away, requests pass: and someone is told.
func ExampleFailOpen() {
	limiter, err := ratelimit.NewMemory(ratelimit.TokenBucket, ratelimit.LimitFunc(
		func(context.Context, string) (ratelimit.Limit, error) {
			return ratelimit.Limit{}, errors.New("the plans can't be read")
		}))
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })

	closed := httplimit.Middleware{Limiter: limiter, Key: httplimit.ByRemoteAddr}
	show(closed.Handler(hello), httptest.NewRequest(http.MethodGet, "/", http.NoBody))

	open := closed
	open.Failed = func(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
		fmt.Println("not limited:", err)
		httplimit.FailOpen(w, r, next, err)
	}
	show(open.Handler(hello), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	// Output:
	// 503 Service Unavailable
	// not limited: ratelimit: token_bucket: key "ip:192.0.2.1": the plans can't be read
	// 200 OK
}

// An answer of one's own, in place of the text or problem+json.
func ExampleMiddleware_denied() {
	limiter, err := ratelimit.NewMemory(ratelimit.TokenBucket, ratelimit.PerHour(60))
	if err != nil {
		log.Fatal(err)
	}
	limit := httplimit.Middleware{
		Limiter: limiter,
		Key:     httplimit.ByRemoteAddr,
		Cost:    func(r *http.Request) int { return 40 }, // an upload, say
		Denied: func(w http.ResponseWriter, r *http.Request, result ratelimit.Result) {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprintf(w, "%d left, enough in %v", result.Remaining, result.RetryAfter.Round(time.Minute))
		},
	}
	handler := limit.Handler(http.NotFoundHandler())

	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", http.NoBody))
		body, _ := io.ReadAll(w.Body)
		fmt.Println(w.Code, string(body))
	}
	// Output:
	// 404 404 page not found
	//
	// 429 20 left, enough in 20m0s
}
