package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/weirgo/ratelimit"
)

// shoot makes a burst of calls. It draws an o for each that is allowed, a dot
// for each that is refused, and after them how long the last was told to wait.
func shoot(ctx context.Context, limiter ratelimit.Limiter, key string) (string, error) {
	var marks []byte
	var wait time.Duration
	for range callsPerBurst {
		result, err := allow(ctx, limiter, key)
		switch {
		case err != nil:
			return "", err
		case result.Allowed:
			marks = append(marks, 'o')
		default:
			marks = append(marks, '.')
			wait = result.RetryAfter
		}
	}
	return fmt.Sprintf("%s %5.2fs", marks, wait.Seconds()), nil
}

// show prints the table.
func show(all []*contender, stdout io.Writer) {
	w := tabwriter.NewWriter(stdout, 0, 0, 4, ' ', 0)
	fmt.Fprint(w, "algorithm")
	for _, at := range schedule {
		fmt.Fprintf(w, "\tat %.1fs   wait", at.Seconds())
	}
	fmt.Fprintln(w)
	for _, c := range all {
		fmt.Fprint(w, c.name)
		for _, burst := range c.bursts {
			fmt.Fprint(w, "\t", burst)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	fmt.Fprint(stdout, legend)
}

const legend = `
o  allowed    .  refused    wait  after this long the refused call is allowed

token bucket            5 at once; then what has come back meanwhile, at 2.5 a second
leaky bucket            one call each 0.4 s, never two at once
fixed window            nothing until the 2 s are over; then all 5 again
sliding window log      never more than 5 in any 2 s
sliding window counter  the same by estimate: of the 5 before, some still count
`
