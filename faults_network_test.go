package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a bad network does to a server that is well.
var networkFaults = []fault{
	{name: "connections reset at 20% of replies", proxied: true, strike: harming(reset, 0.2)},
	{name: "20% of replies cut in half, connection closed", proxied: true, strike: harming(halfCut, 0.2)},
	{name: "1% of replies cut in half, connection silent", proxied: true, strike: harming(halfMute, 0.01)},
	{name: "replies 200 ms late", proxied: true, strike: func(t *testing.T, s *scene) {
		s.proxy.delay(200 * time.Millisecond)
		time.Sleep(2 * time.Second)
		s.proxy.delay(0)
	}},
}

func harming(h harm, share float64) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		s.proxy.harmReplies(h, share)
		time.Sleep(2 * time.Second)
		s.proxy.harmReplies(noHarm, 0)
		require.Positive(t, s.proxy.harmed())
		s.proxy.cut() // the silent ones
	}
}
