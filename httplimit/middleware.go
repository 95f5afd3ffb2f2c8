package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/weirgo/ratelimit"
)

// Middleware limits the requests to a handler. Limiter and Key must be set;
// the zero value of each other field is a good default.
type Middleware struct {
	// Limiter decides. It is asked with the request's context, so that a
	// LimitFunc can use what earlier middleware has put there.
	Limiter ratelimit.Limiter

	// Key says whose limit a request counts against. Where it returns "",
	// the key is NoKey.
	Key KeyFunc

	// Name is the policy's name in the answers: 1 to 64 printable ASCII
	// characters without " and \. "" means "default". Where several limits
	// apply to one request, give each a name of its own.
	Name string

	// Cost is how many units a request takes. Less than 1 counts as 1, so that
	// no request is free by mistake. nil means 1 each.
	Cost func(*http.Request) int

	// Skip tells which requests are not limited: they are not counted, and
	// their answers say nothing of limits. nil means none.
	Skip func(*http.Request) bool

	// Timeout is how long a decision may take before Failed is called, at least
	// 1 ms. 0 means as long as the request's context and the limiter's own timeouts let it,
	// which with Redis away can be seconds.
	Timeout time.Duration

	// LegacyHeaders adds X-RateLimit-Limit, -Remaining and -Reset, where Reset
	// is in seconds from now: until everything is back, in a refused answer
	// until the request can pass. If several limits apply, the one with the
	// least remaining shows.
	LegacyHeaders bool

	// Denied answers a refused request. All headers are set before, and can be
	// changed; the status is Denied's to write. nil means 429 with a short text,
	// or with application/problem+json where the request's Accept prefers JSON.
	Denied func(http.ResponseWriter, *http.Request, ratelimit.Result)

	// Failed handles a request for which there is no decision: it answers, or
	// goes on with next. nil means FailClosed. A request whose own context has
	// ended is refused without a call of Failed: else who cancels every request
	// would be unlimited wherever Failed lets through.
	Failed func(w http.ResponseWriter, r *http.Request, next http.Handler, err error)
}

// Handler returns next behind the limit. It uses the ResponseWriter as it is,
// so whatever next can do with it, it still can.
//
// Handler panics if Limiter, Key or next is missing, or Name or Timeout is out
// of bounds, as these are mistakes in the program. Changes to m after the call
// have no effect.
func (m Middleware) Handler(next http.Handler) http.Handler { //nolint:gocritic // a value, so that a literal has a Handler
	if err := m.check(next); err != nil {
		panic("httplimit: " + err.Error())
	}
	if m.Name == "" {
		m.Name = "default"
	}
	if m.Failed == nil {
		m.Failed = FailClosed
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
}

func (m *Middleware) check(next http.Handler) error {
	switch {
	case isNil(m.Limiter):
		return errors.New("Middleware.Limiter is nil")
	case m.Key == nil:
		return errors.New("Middleware.Key is nil: say who is limited, for example ByRemoteAddr")
	case isNil(next):
		return errors.New("the handler is nil")
	case m.Timeout != 0 && m.Timeout < time.Millisecond: // most often a number without its unit
		return fmt.Errorf("Middleware.Timeout is %v, it must be 0 or at least 1ms", m.Timeout)
	}
	return checkName(m.Name)
}

// isNil is also true of a nil pointer in an interface, as a constructor whose
// error was passed over leaves it.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || (r.Kind() == reflect.Pointer || r.Kind() == reflect.Func) && r.IsNil()
}

func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.Skip != nil && m.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	result, err := m.decide(r)
	if err != nil {
		failed := m.Failed
		if r.Context().Err() != nil {
			failed = FailClosed
		}
		failed(w, r, next, err)
		return
	}
	addFields(w.Header(), m.Name, result)
	if m.LegacyHeaders {
		setLegacyFields(w.Header(), result)
	}
	if !result.Allowed {
		m.deny(w, r, result)
		return
	}
	next.ServeHTTP(w, r)
}

func (m *Middleware) decide(r *http.Request) (ratelimit.Result, error) {
	key, cost := m.Key(r), 1
	if key == "" {
		key = NoKey
	}
	if m.Cost != nil {
		cost = max(m.Cost(r), 1)
	}
	ctx := r.Context()
	if m.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.Timeout)
		defer cancel()
	}
	return m.Limiter.AllowN(ctx, key, cost)
}
