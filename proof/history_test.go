package proof

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weirgo/ratelimit"
)

// A history is what was asked of a limiter for one key, and answered when.
type history struct {
	began      time.Time
	operations []porcupine.Operation
}

// record lets one caller for each list in plan make its calls, all at the same time.
func record(ctx context.Context, l ratelimit.Limiter, key string, plan [][]call) (history, error) {
	h := history{began: time.Now()}
	var callers sync.WaitGroup
	var mu sync.Mutex
	var failure error
	gate := make(chan struct{})
	for id, calls := range plan {
		callers.Go(func() {
			<-gate
			for _, c := range calls {
				called := time.Since(h.began)
				result, err := c.of(ctx, l, key)
				returned := time.Since(h.began)
				mu.Lock()
				h.operations = append(h.operations, porcupine.Operation{
					ClientId: id, Input: c, Output: result, Call: int64(called), Return: int64(returned),
				})
				if err != nil {
					failure = fmt.Errorf("%v: %w", c, err)
				}
				mu.Unlock()
			}
		})
	}
	close(gate)
	callers.Wait()
	return h, failure
}

// overlapping is how many operations were under way at the same time as another
// caller's: without those a history shows nothing.
func (h history) overlapping() (n int) {
	for _, a := range h.operations {
		if slices.ContainsFunc(h.operations, func(b porcupine.Operation) bool {
			return a.ClientId != b.ClientId && a.Call < b.Return && b.Call < a.Return
		}) {
			n++
		}
	}
	return n
}

func (h history) String() string {
	var s strings.Builder
	for _, o := range slices.SortedFunc(slices.Values(h.operations), func(a, b porcupine.Operation) int {
		return cmp.Compare(a.Call, b.Call)
	}) {
		fmt.Fprintf(&s, "\n%10v to %10v  caller %d  %v: %+v", time.Duration(o.Call), time.Duration(o.Return), o.ClientId, o.Input, o.Output)
	}
	return s.String()
}
