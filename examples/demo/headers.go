package main

import (
	"context"
	"net/http"

	"github.com/weirgo/ratelimit"
	"github.com/weirgo/ratelimit/httplimit"
)

type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// headers is what a service behind httplimit would answer with: the status,
// under the name of "HTTP/1.1", and the headers of the limit.
func headers(r ratelimit.Result) []header {
	w := &answer{header: http.Header{}, status: http.StatusOK}
	httplimit.Middleware{
		Limiter: decided(r),
		Key:     func(*http.Request) string { return "any" },
		Name:    "demo",
	}.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, &http.Request{Header: http.Header{}})

	all := []header{{"HTTP/1.1", statusLine(w.status)}}
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "Retry-After"} {
		if value := w.header.Get(name); value != "" {
			all = append(all, header{name, value})
		}
	}
	return all
}

func statusLine(status int) string {
	if status == http.StatusTooManyRequests {
		return "429 Too Many Requests"
	}
	return "200 OK"
}

// An answer keeps the head of a response.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }

// A decided is a Limiter that has decided already.
type decided ratelimit.Result

func (d decided) Allow(context.Context, string) (ratelimit.Result, error) {
	return ratelimit.Result(d), nil
}

func (d decided) AllowN(context.Context, string, int) (ratelimit.Result, error) {
	return ratelimit.Result(d), nil
}

func (d decided) Peek(context.Context, string) (ratelimit.Result, error) {
	return ratelimit.Result(d), nil
}

func (d decided) Reset(context.Context, string) error { return nil }
