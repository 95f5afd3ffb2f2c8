package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

// Who waits as long as it was told is let through.
func TestWaitIsTrue(t *testing.T) {
	t.Parallel()
	d := startDemo(t, redisAddr(t), "")
	for _, c := range []map[string]any{
		{"rate": 5, "period_ms": 600, "burst": 0, "cost": 1},
		{"rate": 9, "period_ms": 500, "burst": 4, "cost": 3},
	} {
		d.post("/config", c, http.StatusOK, nil)
		var refused, allowed struct{ Results []volley }
		d.post("/test", `{"count":20}`, http.StatusOK, &refused)
		var longest float64
		for _, r := range refused.Results {
			require.Positive(t, r.Refused, r.Algorithm)
			longest = max(longest, r.Last.RetryAfter)
		}
		eventually(t, func() bool {
			for _, p := range d.state().Panels {
				if p.Wait.Until == "later" {
					return false
				}
			}
			return true
		}, "a countdown does not end")
		d.post("/test", `{}`, http.StatusOK, &allowed)
		for _, r := range allowed.Results {
			require.Equal(t, 1, r.Allowed, r.Algorithm)
		}
	}
	d.post("/config", map[string]any{"rate": 5, "cost": 6, "burst": 0}, http.StatusOK, nil)
	d.post("/test", `{}`, http.StatusOK, nil)
	for _, p := range d.state().Panels {
		require.Equal(t, "never", p.Wait.Until)
		require.InDelta(t, -1, p.Last.RetryAfter, 0)
		require.Contains(t, p.Last.Story, "Refused for good")
	}
}

func TestBoundarySpike(t *testing.T) {
	t.Parallel()
	d := startDemo(t, redisAddr(t), "")
	for range 3 { // on a busy machine the first volley may come too late
		d.post("/traffic", `{"mode":"boundary"}`, http.StatusOK, nil)
		eventually(t, func() bool { return strings.HasPrefix(d.state().Traffic.Note, "Spike sent: 20 requests") }, "the spike does not end")
		if d.panel(ratelimit.FixedWindow).Most == 19 {
			break
		}
	}
	fixed, exact := d.panel(ratelimit.FixedWindow), d.panel(ratelimit.SlidingWindowLog)
	require.Equal(t, 19, fixed.Most)
	require.Contains(t, fixed.Over, "Window boundary: 19 passed within one period, the limit is 10")
	require.LessOrEqual(t, exact.Most, 10)
	require.Empty(t, exact.Over)
	require.LessOrEqual(t, d.panel(ratelimit.LeakyBucket).Most, 10)
}

// However the traffic comes, the log never shows more than its limit.
func TestTrafficIsBounded(t *testing.T) {
	t.Parallel()
	d := startDemo(t, redisAddr(t), "")
	d.post("/config", map[string]any{"rate": 20, "period_ms": 500}, http.StatusOK, nil)
	for _, mode := range []string{steady, random} {
		before := unitsSent(d.panel(ratelimit.SlidingWindowLog))
		d.post("/traffic", map[string]any{"mode": mode, "per_second": 200}, http.StatusOK, nil)
		time.Sleep(2 * time.Second)
		d.post("/traffic", map[string]any{"mode": pause}, http.StatusOK, nil)
		p := d.panel(ratelimit.SlidingWindowLog)
		sent := unitsSent(p) - before
		require.Greater(t, sent, 20, mode)
		require.LessOrEqual(t, sent, 500, mode)
		require.LessOrEqual(t, p.Most, 20, mode)
	}
	at := d.panel(ratelimit.TokenBucket).Last.At
	time.Sleep(300 * time.Millisecond)
	require.Equal(t, at, d.panel(ratelimit.TokenBucket).Last.At, "paused traffic goes on")
}

func unitsSent(p *panelView) int {
	sum := 0
	for _, b := range p.Bins {
		sum += b[0] + b[1]
	}
	return sum
}
