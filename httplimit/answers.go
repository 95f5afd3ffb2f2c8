package httplimit

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/weirgo/ratelimit"
)

// quotaExceeded is the problem type of draft-ietf-httpapi-ratelimit-headers.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// FailOpen is a Middleware.Failed that lets the request through: for limits
// that are a courtesy, where being up matters more than the limit. The answer
// says nothing of limits, as nothing is known.
//
// It logs nothing: call it from a function that does, or a limiter that is off
// is found out too late. It lets through whatever the error is, one of a
// LimitFunc as well: give keys that a stranger can make up, and NoKey, a limit
// and no error.
func FailOpen(w http.ResponseWriter, r *http.Request, next http.Handler, _ error) {
	next.ServeHTTP(w, r)
}

// FailClosed is the default Middleware.Failed: it answers 503 Service
// Unavailable, without the cause and without a Retry-After, as nobody knows
// when there will be decisions again.
func FailClosed(w http.ResponseWriter, r *http.Request, _ http.Handler, _ error) {
	w.Header().Set("Cache-Control", "no-store")
	reply(w, r, problem{
		Title:  http.StatusText(http.StatusServiceUnavailable),
		Status: http.StatusServiceUnavailable,
		Detail: "The request could not be checked against its limit.",
	})
}

// deny sets what every refusal has, and answers.
func (m *Middleware) deny(w http.ResponseWriter, r *http.Request, result ratelimit.Result) {
	h := w.Header()
	h.Set("Cache-Control", "no-store") // RFC 6585: a cache must not store a 429
	detail := "The request can't pass under this limit."
	if s, ok := retryAfter(result); ok {
		after := strconv.FormatInt(s, 10)
		h.Set("Retry-After", after)
		detail = "Try again in " + after + " s."
	} else {
		h.Del("Retry-After")
	}
	if m.Denied != nil {
		m.Denied(w, r, result)
		return
	}
	reply(w, r, problem{
		Type:     quotaExceeded,
		Title:    http.StatusText(http.StatusTooManyRequests),
		Status:   http.StatusTooManyRequests,
		Detail:   detail,
		Violated: []string{m.Name},
	})
}

// A problem is an RFC 9457 problem. It never holds a key or a cause.
type problem struct {
	Type     string   `json:"type,omitempty"` // "" means about:blank
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

// reply writes p as JSON if that is what the client prefers, else as a line.
func reply(w http.ResponseWriter, r *http.Request, p problem) { //nolint:gocritic // off the hot path
	if body, err := json.Marshal(p); err == nil && prefersJSON(r.Header["Accept"]) {
		h := w.Header()
		h.Del("Content-Length") // as http.Error does: it was for another body
		h.Set("Content-Type", "application/problem+json")
		h.Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(p.Status)
		_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
		return
	}
	http.Error(w, p.Title+". "+p.Detail, p.Status)
}

// mostAccepted bounds the work for one request's Accept.
const mostAccepted = 32

// prefersJSON tells whether a kind of JSON is named in Accept, and no text is
// liked better. Who accepts anything gets text.
func prefersJSON(accept []string) bool {
	var text, jsons float64
	n := 0
	for _, line := range accept {
		for entry := range strings.SplitSeq(line, ",") {
			if n == mostAccepted {
				return jsons > 0 && jsons >= text
			}
			n++
			kind, parameters, _ := strings.Cut(entry, ";")
			switch kind = strings.ToLower(strings.TrimSpace(kind)); {
			case kind == "application/*", kind == "application/json", kind == "application/problem+json":
				jsons = max(jsons, quality(parameters))
			case strings.HasPrefix(kind, "text/"):
				text = max(text, quality(parameters))
			}
		}
	}
	return jsons > 0 && jsons >= text
}

// quality is the q among a media range's parameters, 1 if there is none.
func quality(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if strings.EqualFold(name, "q") {
			if q, err := strconv.ParseFloat(value, 64); err == nil && q >= 0 && q <= 1 {
				return q
			}
			return 0
		}
	}
	return 1
}
