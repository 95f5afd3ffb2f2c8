package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// WithoutCoalescing sends each call to Redis by itself.
//
// Without it calls of one limiter that come at the same time are decided
// together, in their order, by one script or, where keys may live on several
// servers, one pipeline for each: that takes a fraction of the time of Redis and
// of the client. A lone call is sent at once in any case, and an error of one
// call is none of the others'. A hook of the client sees the context of the first
// of them, which does not end with its caller.
//
// It is done for a *redis.Client, *redis.ClusterClient and *redis.Ring. A client
// of another type may be any of these inside; it gets calls one by one.
func WithoutCoalescing() Option {
	return func(o *redisOptions) { o.apart = true }
}

// A coalescer has the lanes of a limiter.
type coalescer struct {
	rdb redis.UniversalClient
	one lane // where no node is known

	// Where each node has a lane, so that one that is lost holds up no other:
	node     func(ctx context.Context, key string) (*redis.Client, error) // nil for a single server
	answered atomic.Bool                                                  // the client knows the nodes
	mu       sync.Mutex
	lanes    map[string]*lane // by address

	scattered atomic.Bool // the server is a cluster: one script can't have all keys
}

func newCoalescer(rdb redis.UniversalClient, apart bool) *coalescer {
	c := &coalescer{rdb: rdb}
	switch rdb := rdb.(type) {
	case *redis.Client:
	case *redis.ClusterClient:
		c.node = rdb.MasterForKey
	case *redis.Ring:
		c.node = func(_ context.Context, key string) (*redis.Client, error) { return rdb.GetShardClientForKey(key) }
	default:
		apart = true
	}
	c.one = lane{decide: c.decide, flights: maxFlights, batch: maxBatch}
	if apart {
		c.node = nil
		c.one.flights, c.one.batch = maxInFlight, 1
	}
	return c
}

// lane is where calls for the key of that name go.
func (c *coalescer) lane(ctx context.Context, name string) *lane {
	if c.node == nil || !c.answered.Load() { // a client that knows no nodes would ask for them here
		return &c.one
	}
	node, err := c.node(ctx, name)
	if err != nil {
		return &c.one
	}
	address := node.Options().Addr
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[address]
	if l == nil {
		c.forget()
		l = &lane{decide: c.decide, flights: c.one.flights, batch: c.one.batch}
		c.lanes[address] = l
	}
	return l
}

// forget drops the lanes of nodes that may be gone.
func (c *coalescer) forget() {
	if c.lanes == nil {
		c.lanes = map[string]*lane{}
	}
	for address, l := range c.lanes {
		if l.idle() {
			delete(c.lanes, address)
		}
	}
}

// decide gives each of some calls its answer or error, in one round trip.
func (c *coalescer) decide(ctx context.Context, calls []*call) {
	switch {
	case len(calls) == 1:
		calls[0].decide(ctx, c.rdb)
	case c.node != nil || c.scattered.Load():
		pipeline(ctx, c.rdb, calls)
	default:
		if err := c.together(ctx, calls); isCrossSlot(err) {
			c.scattered.Store(true)
			pipeline(ctx, c.rdb, calls)
		}
	}
	if c.node != nil && !c.answered.Load() {
		for _, call := range calls {
			if call.err == nil {
				c.answered.Store(true)
			}
		}
	}
	for _, call := range calls {
		reload(ctx, c.rdb, call.err)
	}
}

// isCrossSlot tells that a script was refused for having keys of several slots,
// or for how it names them, as by a cluster behind a proxy, which words it in its
// own way.
func isCrossSlot(err error) bool {
	if err == nil {
		return false
	}
	var said redis.Error
	return errors.As(err, &said) && (strings.HasPrefix(said.Error(), "CROSSSLOT") ||
		strings.Contains(said.Error(), "same slot") || strings.Contains(said.Error(), "bad lua script"))
}

// decide asks for one call.
func (c *call) decide(ctx context.Context, rdb redis.UniversalClient) {
	var n []int64
	n, c.err = c.of.script.run(ctx, rdb, []string{c.name}, c.args())
	if c.err == nil {
		c.answer, c.err = c.q.only(n)
	}
}

// together asks for calls of one mode in one script, and returns the error of all.
func (c *coalescer) together(ctx context.Context, calls []*call) error {
	keys := make([]string, len(calls))
	first, alike := calls[0], true
	for i, call := range calls {
		keys[i] = call.name
		alike = alike && call.argv == first.argv && call.q.n == first.q.n
	}
	fetch := severally
	if first.of.algorithm != SlidingWindowLog && first.q.mode != charge && distinct(keys) {
		fetch = atOnce
	}
	each := calls
	if alike {
		each = calls[:1]
	}
	argv := make([]any, 0, 2+4*len(each))
	argv = append(argv, first.q.mode.arg(), fetch)
	for _, call := range each {
		argv = append(argv, call.q.n, call.argv.rate, call.argv.period, call.argv.capacity)
	}
	n, err := first.of.batch.run(ctx, c.rdb, keys, argv)
	if err == nil && len(n) < 4*len(calls) {
		err = unexpected(n, fmt.Sprintf("it must be at least %d integers", 4*len(calls)))
	}
	if err != nil {
		for _, call := range calls {
			call.err = err
		}
		return err
	}
	said := n[4*len(calls):]
	for i, call := range calls {
		if four := n[4*i : 4*i+4]; four[0] == -1 {
			said, call.err = saidError(said)
		} else {
			call.answer, call.err = call.q.answer(four)
		}
	}
	if len(said) > 0 {
		for _, call := range calls {
			call.err = unexpected(said, "it is too long")
		}
	}
	return nil
}

// How a batch's states are fetched: see batch.lua.
var atOnce, severally any = "1", "0"

// distinct tells whether no key is there twice.
func distinct(keys []string) bool {
	var slots [2 * maxBatch]uint8 // an open hash table, of which key is where
	for i, key := range keys {
		slot := maphash.String(keySeed, key) % uint64(len(slots))
		for slots[slot] != 0 {
			if keys[slots[slot]-1] == key {
				return false
			}
			slot = (slot + 1) % uint64(len(slots))
		}
		slots[slot] = uint8(i + 1) //nolint:gosec // maxBatch at most
	}
	return true
}

var keySeed = maphash.MakeSeed()

// A scriptError is what Redis said of one call among others in a script.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (scriptError) RedisError() {}

// saidError takes an error off the end of a reply: see batch.lua.
func saidError(said []int64) (rest []int64, err error) {
	if len(said) == 0 || said[0] < 0 || said[0] >= int64(len(said)) {
		return nil, unexpected(said, "it has no text of an error")
	}
	text := make([]byte, said[0])
	for i, b := range said[1 : 1+len(text)] {
		text[i] = byte(b)
	}
	return said[1+len(text):], scriptError(text)
}
