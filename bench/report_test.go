package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
	require.InDelta(t, 2, median([]float64{math.NaN(), 2}), 0)
	require.True(t, math.IsNaN(median(nil)))
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	calls := make([]uint32, 1000)
	for i := range calls {
		calls[i] = uint32(1000 * (i + 1)) //nolint:gosec // it fits
	}
	require.InDelta(t, 501, quantile(calls, 0.5), 0)
	require.InDelta(t, 991, quantile(calls, 0.99), 0)
	require.InDelta(t, 1000, quantile(calls, 0.999), 0)
	require.InDelta(t, 1, quantile(calls[:1], 0.999), 0)
}

// figures are a report of two rounds, the second on a machine half as fast.
func figures(own, peer sample) *report {
	slow := func(s sample) sample {
		s[throughput] /= 2
		for _, m := range []metric{p50, p99, p999, cpu, busy} {
			s[m] *= 2
		}
		return s
	}
	return &report{
		subjects: []subject{
			{name: "own", ours: true, kinds: kinds(tokenBucket)},
			{name: "peer", kinds: kinds(tokenBucket, leakyBucket)},
			{name: "other", kinds: kinds(fixedWindow)},
		},
		sites:   []string{"here"},
		callers: []int{8},
		cells: cells{
			{"here", 8, "own"}:   {own, slow(own)},
			{"here", 8, "peer"}:  {peer, slow(peer)},
			{"here", 8, "other"}: {sample{throughput: 1e9}, sample{throughput: 1e9}},
		},
		weights: []weight{{"own", 100, 40, 40}, {"peer", 90, 30, 50}, {"other", 1, 0, 0}},
	}
}

// Where a peer is better is read off the figures, and only off those of its kind.
func TestLost(t *testing.T) {
	t.Parallel()
	same := sample{throughput: 1000, p50: 10, p99: 20, p999: 30, cpu: 5, busy: 4, sent: 1, ran: 3, allocs: 8}
	peer := same
	peer[throughput], peer[p99], peer[cpu] = 1500, 40, 4.9
	r := figures(same, peer)
	require.Equal(t, []string{
		"- **peer** over own:",
		"  - throughput, up to 1.50 ×: here with 8",
		"  - memory: 10 bytes a key less",
	}, r.lost())

	peer[throughput] = 900
	r = figures(same, peer)
	r.weights = nil
	require.Empty(t, r.lost())
}

// The lead over the fastest peer of its kind is one within a round: that the
// machine was slower in the second changes nothing.
func TestGlance(t *testing.T) {
	t.Parallel()
	r := figures(sample{throughput: 3000, p50: 10}, sample{throughput: 1000, p50: 40})
	require.Equal(t, ""+
		"| throughput |   8 callers |\n"+
		"|------------|------------:|\n"+
		"| own        | 3.00 × peer |\n", r.glance("here", throughput))
	require.Contains(t, r.glance("here", p50), "4.00 × peer")
}

func TestMakeup(t *testing.T) {
	t.Parallel()
	was := stats{commands: map[string]commandStats{"get": {10, 10}, "info": {5, 500}}}
	is := stats{commands: map[string]commandStats{"get": {50, 30}, "evalsha": {20, 200}, "info": {6, 600}}}
	sent, ran, micros := makeup{"evalsha": 1, "get": 0.25}.between(was, is)
	require.InDelta(t, 20+10, sent, 0)
	require.InDelta(t, 20+40, ran, 0)
	require.InDelta(t, 200+5, micros, 0)
}

func TestGrown(t *testing.T) {
	t.Parallel()
	c := curve{subject: "own", x: []int{1000, 10_000}, own: [][]float64{{10, 10}, {30, 30}}, plain: [][]float64{{1, 1}, {2, 2}}}
	require.Equal(t, ""+
		"| keys       |   1k |  10k |  grows | over HMGET+HSET |\n"+
		"|------------|-----:|-----:|-------:|----------------:|\n"+
		"| own        | 10.0 | 30.0 | 3.00 × |          1.50 × |\n"+
		"| HMGET+HSET | 1.00 | 2.00 | 2.00 × |                 |\n", grown("keys", []curve{c}))
}
