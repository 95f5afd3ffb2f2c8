package main

import (
	"errors"
	"syscall"
	"time"
)

// slack is how late Linux may wake a thread.
const slack = 50 * time.Microsecond

// sleep is time.Sleep, but precise: Go's own timers are often a whole
// millisecond late while a process idles.
func sleep(d time.Duration) {
	if d -= slack; d <= 0 {
		return
	}
	t := syscall.NsecToTimespec(int64(d))
	for errors.Is(syscall.Nanosleep(&t, &t), syscall.EINTR) { // t is what was left
	}
}
