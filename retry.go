package ratelimit

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	maxAttempts  = 4
	firstBackoff = 10 * time.Millisecond // doubled with each attempt, half of it by chance
)

// retry runs f again, a few times and within ctx, while the cause says that
// nothing has run. The client itself is told not to repeat a script, so it
// does not repeat these either.
func retry[T any](ctx context.Context, rdb redis.UniversalClient, f func() (T, error)) (T, error) {
	for attempt := 1; ; attempt++ {
		a, err := f()
		reload(ctx, rdb, err)
		if err == nil || attempt == maxAttempts || !didNotRun(err) {
			return a, err
		}
		if !pause(ctx, attempt) {
			return a, err
		}
	}
}

// reload lets a cluster client ask anew who the masters are, when one does not
// answer. By itself it asks once a minute, and for so long it calls a master
// that a replica has replaced. It asks in the background, once at a time and
// no more than five times a second.
func reload(ctx context.Context, rdb redis.UniversalClient, err error) {
	if err == nil {
		return
	}
	var network net.Error
	if !errors.As(err, &network) && !errors.Is(err, io.EOF) {
		return
	}
	if cluster, ok := rdb.(interface{ ReloadState(ctx context.Context) }); ok {
		cluster.ReloadState(ctx)
	}
}

// pause waits before attempt is repeated, unless ctx ends.
func pause(ctx context.Context, attempt int) bool {
	backoff := firstBackoff << (attempt - 1)
	timer := time.NewTimer(backoff/2 + rand.N(backoff/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// didNotRun tells whether err surely came before the script began and may pass
// by itself: no connection was had, or the server refused to begin.
func didNotRun(err error) bool {
	var op *net.OpError
	switch {
	case errors.Is(err, redis.ErrPoolTimeout),
		errors.As(err, &op) && op.Op == "dial",
		redis.IsLoadingError(err),
		redis.IsReadOnlyError(err),
		redis.IsMasterDownError(err),
		redis.IsClusterDownError(err),
		redis.IsTryAgainError(err),
		redis.IsMaxClientsError(err):
		return true
	}
	return false
}
