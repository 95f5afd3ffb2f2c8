package ratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// A fallbackConfig is a Fallback's fields with their defaults.
type fallbackConfig struct {
	timeout time.Duration
	breakerConfig
}

func (f *Fallback) config() fallbackConfig {
	c := fallbackConfig{
		timeout: cmp.Or(f.Timeout, 50*time.Millisecond),
		breakerConfig: breakerConfig{
			failures:    cmp.Or(f.Failures, 5),
			cooldown:    f.Cooldown,
			maxCooldown: cmp.Or(f.MaxCooldown, max(f.Cooldown, 5*time.Second)),
			tell:        f.OnStateChange,
		},
	}
	c.cooldown = cmp.Or(c.cooldown, min(500*time.Millisecond, c.maxCooldown))
	c.probe = c.timeout + c.maxCooldown
	return c
}

func (f *Fallback) check() error {
	switch {
	case f == nil:
		return misuseError("the Fallback is nil")
	case f.Primary == nil:
		return misuseError("Primary is nil, it must be a Limiter")
	case f.Timeout < 0:
		return misuseError(fmt.Sprintf("Timeout is %v, it must be at least 0", f.Timeout))
	case f.Failures < 0:
		return misuseError(fmt.Sprintf("Failures is %d, it must be at least 0", f.Failures))
	case f.Cooldown < 0:
		return misuseError(fmt.Sprintf("Cooldown is %v, it must be at least 0", f.Cooldown))
	case f.MaxCooldown != 0 && f.MaxCooldown < f.Cooldown, f.MaxCooldown < 0:
		return misuseError(fmt.Sprintf("MaxCooldown is %v, it must be at least the Cooldown of %v", f.MaxCooldown, f.Cooldown))
	}
	return nil
}

// A misuseError says what is wrong with the fields of a limiter.
type misuseError string

func (e misuseError) Error() string { return "ratelimit: fallback: " + string(e) }

// isMistake tells whether an error tells of the caller or the program, and
// nothing of a limiter's health.
func isMistake(err error) bool {
	var misuse misuseError
	return errors.Is(err, ErrInvalidN) || errors.Is(err, ErrInvalidKey) || errors.Is(err, ErrInvalidLimit) ||
		errors.Is(err, errNotMade) || errors.As(err, &misuse)
}
