package ratelimit

import (
	"context"
	"sync"
)

// A call is a request on its way to Redis.
type call struct {
	of      *Redis
	key     string
	name    string // of the key in Redis
	limit   Limit
	q       request
	argv    *limitArgs
	cmd     *command // in a pipeline
	answer  answer
	err     error
	outcome *Outcome // in AllowEach

	// In a lane, whose mutex guards these.
	lane           *lane
	ctx            context.Context //nolint:containedctx // a call is what has it
	done           chan struct{}   // closed when it has landed, nil if nobody waits
	previous, next *call
	flight         *flight // that it is on
	gone           bool    // its caller is
	landed         bool

	own  flight // of this call alone
	self [1]*call
	lead func()
}

// calls are kept for the next. One whose caller left before it landed is not, and
// none has a channel, which could not be used outside the synctest bubble that
// it was made in.
var calls = sync.Pool{New: func() any {
	c := new(call)
	c.lead = func() { c.lane.lead(c.flight) }
	return c
}}

func newCall() *call { return calls.Get().(*call) } //nolint:forcetypeassert // it has no others

func (c *call) recycle() {
	*c = call{lead: c.lead}
	calls.Put(c)
}

// alone puts c on a flight of its own, within its own context.
func (c *call) alone() *flight {
	c.self[0] = c
	c.own = flight{calls: c.self[:], ctx: c.ctx}
	c.flight = &c.own
	return c.flight
}

// limitArgs are a limit's numbers as a script takes them. They are kept, as each
// would have to be allocated.
type limitArgs struct {
	limit                  Limit
	rate, period, capacity any
}

// args is c as the scripts take it: see request.argv.
func (c *call) args() []any {
	return []any{c.q.mode.arg(), c.q.n, c.argv.rate, c.argv.period, c.argv.capacity}
}

func (r *Redis) limitArgs(l Limit, q request) *limitArgs {
	args := r.lastLimit.Load()
	if args == nil || args.limit != l {
		args = &limitArgs{l, q.rate, q.period, q.capacity}
		r.lastLimit.Store(args)
	}
	return args
}
