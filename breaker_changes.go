package ratelimit

// A change of a breaker's state.
type change struct {
	from, to BreakerState
	cause    error
}

// announce tells the changes, one after the other and in their order. If
// another goroutine is at it, that one goes on with these.
func (b *breaker) announce(c *breakerConfig) {
	if c.tell == nil {
		return
	}
	for {
		next, ok := b.nextChange()
		if !ok {
			return
		}
		func() {
			defer b.told()
			c.tell(next.from, next.to, next.cause)
		}()
	}
}

func (b *breaker) nextChange() (change, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.telling || len(b.changes) == 0 {
		return change{}, false
	}
	next := b.changes[0]
	b.changes = b.changes[1:]
	b.telling = true
	return next, true
}

func (b *breaker) told() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.telling = false
}
