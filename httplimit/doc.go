// Package httplimit puts a [ratelimit.Limiter] in front of an [http.Handler].
//
//	limit := httplimit.Middleware{
//		Limiter: limiter,
//		Key:     httplimit.ByRemoteAddr,
//		Timeout: 100 * time.Millisecond,
//	}
//	mux := http.NewServeMux()
//	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) {
//		fmt.Fprintln(w, "hello")
//	})
//	handler := limit.Handler(mux) // for http.ListenAndServe(":8080", handler)
//
// [Middleware.Handler] is a func(http.Handler) http.Handler, as routers take it:
// r.Use(limit.Handler).
//
// # What the client sees
//
// Allowed and refused answers alike say what the limit is and what is left of
// it, in the fields of draft-ietf-httpapi-ratelimit-headers:
//
//	RateLimit-Policy: "default";q=100;w=60
//	RateLimit: "default";r=42;t=35;a=42;w=35
//
// That is: 100 units in 60 seconds, 42 of them left for the next 35. (The draft
// has renamed r and t to a and w; both are sent, and clients pass over what they
// do not know.) It is no standard yet.
//
// q is the limit's rate, or its burst where that is larger, and w the seconds,
// rounded up, in which so many come back. A bucket that holds less than its rate
// so never has q left. The same holds for X-RateLimit-Limit.
//
// A refused request gets 429 Too Many Requests, with Retry-After in whole
// seconds, rounded up: who waits that long passes, if nobody else takes the
// units meanwhile. A request that can never pass, since it costs more than the
// limit ever holds or since the limit blocks, gets no Retry-After.
//
// A browser shows these fields to a script of another origin only if
// Access-Control-Expose-Headers lists them.
//
// # When there is no decision
//
// If the limiter returns an error (Redis is away, Timeout has passed), the
// request is refused with 503 Service Unavailable. [FailOpen] lets it through
// instead. The cause goes to Failed, and never to the client.
//
// # Keys
//
// A [KeyFunc] says who is limited. Who can choose the key can choose a new one
// for each request: take it from what the client can't make up, such as its
// address or a user that has been authenticated.
//
// [ByRemoteAddr] is right where clients connect directly. Behind proxies that
// would be the proxy's address: use [ClientIP], which believes X-Forwarded-For
// only as far as proxies you trust have written it. [Join] combines keys, [First]
// falls back from one to the next. Requests without a key are limited together,
// under [NoKey].
//
// # Several limits
//
// Handlers can be wrapped more than once, each time with a Name of its own: each
// policy stands in the fields. All limits must let a request through, and those
// that were asked first have been charged when a later one refuses. The same
// limiter and key twice on one request are charged twice.
package httplimit
