package ratelimit

import (
	"math/rand/v2"
	"testing"
)

// Each target takes its bytes as a sequence of steps: see choices.

func FuzzTokenBucket(f *testing.F)          { fuzzScript(f, TokenBucket) }
func FuzzSlidingWindowLog(f *testing.F)     { fuzzScript(f, SlidingWindowLog) }
func FuzzSlidingWindowCounter(f *testing.F) { fuzzScript(f, SlidingWindowCounter) }
func FuzzLeakyBucket(f *testing.F)          { fuzzScript(f, LeakyBucket) }

func fuzzScript(f *testing.F, a Algorithm) {
	addSteps(f)
	f.Fuzz(func(t *testing.T, steps []byte) {
		runModel(t, a, &choices{data: steps}, min(len(steps)/4, 500))
	})
}

func FuzzFixedWindow(f *testing.F) {
	addSteps(f)
	f.Fuzz(func(t *testing.T, steps []byte) {
		runFixedModel(t, &choices{data: steps}, min(len(steps)/4, 500))
	})
}

func addSteps(f *testing.F) {
	f.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		steps := make([]byte, 400)
		for i := range steps {
			steps[i] = byte(rng.Uint32())
		}
		f.Add(steps)
	}
}
