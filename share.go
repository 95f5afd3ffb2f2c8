package ratelimit

import "math"

// badShare is the Rate of a share among fewer than one.
const badShare = math.MinInt

// Share is the limit of one of so many replicas that share l without talking
// to each other: its Rate and Burst, divided and rounded up. So all replicas
// together have at least l, and at most replicas - 1 units more. A Rate or a
// Burst of 0 stays 0, and Unlimited stays Unlimited.
//
// If replicas is less than 1, the result is an invalid limit: whoever gets it
// answers ErrInvalidLimit.
func (l Limit) Share(replicas int) Limit {
	if replicas < 1 {
		return Limit{Rate: badShare, Period: l.Period}
	}
	if l.Rate != unlimited {
		l.Rate = share(l.Rate, replicas)
	}
	l.Burst = share(l.Burst, replicas)
	return l
}

// share leaves alone what is negative, so that it stays invalid.
func share(units, replicas int) int {
	if units <= 0 {
		return units
	}
	return (units-1)/replicas + 1
}
