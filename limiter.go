package ratelimit

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A Limiter decides, for each key by itself, whether a call may go ahead.
//
// A refusal is a Result, never an error. An error means that there is no
// decision: the caller chooses whether to go ahead without one. All methods
// may be called from many goroutines at once.
type Limiter interface {
	// Allow is AllowN for one unit.
	Allow(ctx context.Context, key string) (Result, error)

	// AllowN takes n units of key's limit, all of them or none. A refused call
	// takes nothing. If n is less than 1 the error is ErrInvalidN; if n is more
	// than the limit ever allows at once, the call is refused with a RetryAfter
	// of Never.
	AllowN(ctx context.Context, key string, n int) (Result, error)

	// Peek tells what Allow would answer. It takes nothing and writes nothing,
	// so it does not settle what a changed limit or a clock set back has left
	// open either: there it is the next Allow whose RetryAfter can be relied on.
	Peek(ctx context.Context, key string) (Result, error)

	// Reset forgets what key has used. It is no error if that is nothing.
	Reset(ctx context.Context, key string) error
}

// Never is the RetryAfter of a call that can't succeed however long it waits:
// check for it before you sleep.
const Never = time.Duration(math.MaxInt64)

// A Result is a Limiter's decision. Beside an error it is zero: not allowed, and
// its RetryAfter says nothing.
type Result struct {
	// Allowed tells whether the call may go ahead.
	Allowed bool

	// Limit is the limit that decided.
	Limit Limit

	// Remaining is how many units could be taken right now: from 0 to the most
	// that the limit allows at once, or math.MaxInt if it is Unlimited.
	Remaining int

	// RetryAfter is 0 if the call was allowed, else the wait after which the
	// same call is allowed if nobody else takes units meanwhile, or Never.
	RetryAfter time.Duration

	// ResetAfter is the wait until the key is as if it had never been used;
	// 0 if it is so now.
	ResetAfter time.Duration

	// Fallback tells that the decision came from the Secondary of a Fallback.
	Fallback bool
}

// The causes that a caller can tell apart with errors.Is. Whatever else stands
// in the way of a decision (Redis, the network, the context, a LimitFunc) is
// wrapped in the error as it came.
var (
	// ErrInvalidLimit says that a Limit is out of bounds; the text has the
	// field and the bound.
	ErrInvalidLimit = errors.New("ratelimit: invalid limit")

	// ErrInvalidN says that less than one unit was asked for.
	ErrInvalidN = errors.New("ratelimit: invalid n")

	// ErrInvalidKey says that the key is empty.
	ErrInvalidKey = errors.New("ratelimit: invalid key")
)

// A callError says which limiter could not be made, or which call has no
// decision, and why.
type callError struct {
	algorithm Algorithm
	key       string // "" if none
	cause     error
}

func (e *callError) Error() string {
	s := "ratelimit: " + string(e.algorithm) + ": "
	if e.key != "" {
		key, more := e.key, ""
		if cut := 64; len(key) > cut {
			for cut > 60 && !utf8.RuneStart(key[cut]) {
				cut--
			}
			key, more = key[:cut], "..."
		}
		s += "key " + strconv.Quote(key) + more + ": "
	}
	return s + strings.TrimPrefix(e.cause.Error(), "ratelimit: ")
}

func (e *callError) Unwrap() error { return e.cause }
