package main

import (
	"context"
	"sync"
)

// A demo is all that runs behind the page.
type demo struct {
	ctx     context.Context //nolint:containedctx // ends the event streams
	lab     *lab
	traffic *traffic
	feed    *feed

	changing sync.Mutex // one change of the config or the traffic at a time
	stop     func()     // ends all of it, and waits until it has ended
}

// start begins to look at the keys, and to send what traffic is asked for.
func start(s *source) (*demo, error) {
	l, err := newLab(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &demo{ctx: ctx, lab: l, traffic: newTraffic(l), feed: newFeed()}
	var wg sync.WaitGroup
	wg.Go(func() { l.watch(ctx, d.feed.watched) })
	wg.Go(func() { d.traffic.run(ctx) })
	wg.Go(func() { d.tell(ctx) })
	d.stop = func() {
		cancel()
		wg.Wait()
	}
	return d, nil
}
