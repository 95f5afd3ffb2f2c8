package ratelimit

import (
	"fmt"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A soakReport is a soak and what came of it.
type soakReport struct {
	soak
	soakResult
	Server string
	Faults int
}

type soakResult struct {
	Samples     []soakSample // of the calm part
	Start       soakSample   // before it
	AfterCalm   soakSample   // without load, all keys gone
	AfterFaults soakSample   // the same
	Calm        soakTally
	Faulty      soakTally
	Immortal    int // keys without a TTL
	Begin, End  int // goroutines of the process
	Stacks      string
}

type soakSample struct {
	At         time.Duration
	Goroutines int
	Pool       int // connections of the callers' client
	Clients    int // connections of the server
	Heap       int // bytes
	Memory     int // bytes, the server's used_memory
	Keys       int
}

// A soakTally counts what callers got. It takes the same room for any number.
type soakTally struct {
	Allowed, Denied, Errors int
	Causes                  map[string]int
	Latencies               [1024]int
	Max                     time.Duration
	Lasted                  time.Duration
}

func (s *soakTally) add(r Result, err error, took time.Duration) {
	switch {
	case err != nil:
		s.Errors++
		if s.Causes == nil {
			s.Causes = map[string]int{}
		}
		s.Causes[soakCause(err)]++
	case r.Allowed:
		s.Allowed++
	default:
		s.Denied++
	}
	s.Latencies[latencyBucket(took)]++
	s.Max = max(s.Max, took)
}

// latencyBucket has 16 buckets for each power of two µs.
func latencyBucket(d time.Duration) int {
	us := max(uint64(d.Microseconds()), 16)
	shift := bits.Len64(us) - 5
	return min(shift*16+int(us>>shift)-16, 1023)
}

// quantile is the upper bound of the bucket that holds the quantile.
func (s *soakTally) quantile(q float64) time.Duration {
	rest := int(q * float64(s.calls()))
	for i, n := range &s.Latencies {
		if rest -= n; rest < 0 {
			return min(time.Duration((i%16+17)<<(i/16))*time.Microsecond, s.Max)
		}
	}
	return s.Max
}

func (s *soakTally) calls() int { return s.Allowed + s.Denied + s.Errors }

// first is of the first samples, from when keys go as fast as they come; last
// of as many at the end.
func (r *soakReport) first() soakSample { return mean(steady(r.Samples, r.Period)[:r.some()]) }

func (r *soakReport) last() soakSample { return mean(r.Samples[len(r.Samples)-r.some():]) }

// some is the samples of a minute or a sixth, a few at least.
func (s soak) some() int { return max(int(min(time.Minute, s.Lasts/6)/s.Every), 6) }

// steady are the samples from when keys go as fast as they come.
func steady(samples []soakSample, period time.Duration) []soakSample {
	i := slices.IndexFunc(samples, func(s soakSample) bool { return s.At > 3*period })
	if i < 0 {
		return nil
	}
	return samples[i:]
}

// mean has the means of what varies by chance, and the most of what is counted.
func mean(samples []soakSample) (m soakSample) {
	for _, s := range samples {
		m.Goroutines, m.Pool, m.Clients = max(m.Goroutines, s.Goroutines), max(m.Pool, s.Pool), max(m.Clients, s.Clients)
		m.Heap, m.Memory, m.Keys = m.Heap+s.Heap, m.Memory+s.Memory, m.Keys+s.Keys
	}
	n := len(samples)
	m.Heap, m.Memory, m.Keys = m.Heap/n, m.Memory/n, m.Keys/n
	return m
}

func (r *soakReport) markdown() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
	mib := func(bytes int) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
	cores := fmt.Sprintf("%d cores shared by server and callers", runtime.NumCPU())
	if raceEnabled {
		cores += ", with the race detector"
	}

	line("%s: %s, %s, go-redis %s, %s/%s, %s.", time.Now().UTC().Format("2 January 2006"), r.Server, runtime.Version(),
		redis.Version(), runtime.GOOS, runtime.GOARCH, cores)
	line("")
	line("%d callers without pause, %d keys, all five algorithms at 2 units per %v, 1 call in 8 on a few hot keys;",
		r.Callers, r.Keys, r.Period)
	line("%v without faults, then %v with %d faults in turn: script flush, all connections killed, server killed and",
		r.Lasts, r.Faulty.Lasted.Round(time.Second), r.Faults)
	line("started again empty. Samples are taken between calls, after a garbage collection: counts are the most of them,")
	line("sizes the mean.")
	line("")
	line("| | without faults | with faults |")
	line("|---|---|---|")
	row := func(name string, f func(*soakTally) string) { line("| %s | %s | %s |", name, f(&r.Calm), f(&r.Faulty)) }
	row("decisions", func(s *soakTally) string { return strconv.Itoa(s.Allowed + s.Denied) })
	row("of them refusals", func(s *soakTally) string { return strconv.Itoa(s.Denied) })
	row("decisions a second", func(s *soakTally) string { return fmt.Sprintf("%.0f", float64(s.Allowed+s.Denied)/s.Lasted.Seconds()) })
	row("errors", func(s *soakTally) string { return strconv.Itoa(s.Errors) + causes(s.Causes) })
	row("latency p50", func(s *soakTally) string { return ms(s.quantile(0.5)) })
	row("latency p99", func(s *soakTally) string { return ms(s.quantile(0.99)) })
	row("latency max (deadline "+soakPatience.String()+")", func(s *soakTally) string { return ms(s.Max) })
	line("")
	n := r.some()
	line("| | before | %d samples from %v on | the last %d of %d | keys gone | after the faults |", n, 3*r.Period, n, len(r.Samples))
	line("|---|---|---|---|---|---|")
	samples := []soakSample{r.Start, r.first(), r.last(), r.AfterCalm, r.AfterFaults}
	figures := func(name string, f func(soakSample) string) {
		cells := make([]string, len(samples))
		for i, s := range samples {
			cells[i] = f(s)
		}
		line("| %s | %s |", name, strings.Join(cells, " | "))
	}
	figures("goroutines", func(s soakSample) string { return strconv.Itoa(s.Goroutines) })
	figures("connections of the client", func(s soakSample) string { return strconv.Itoa(s.Pool) })
	figures("connections of the server", func(s soakSample) string { return strconv.Itoa(s.Clients) })
	figures("Go heap", func(s soakSample) string { return mib(s.Heap) })
	figures("Redis used_memory", func(s soakSample) string { return mib(s.Memory) })
	figures("keys in Redis", func(s soakSample) string { return strconv.Itoa(s.Keys) })
	line("")
	line("Keys without a TTL: %d. Goroutines of the process: %d at its start, %d after the client was closed.", r.Immortal, r.Begin, r.End)
	return b.String()
}

func causes(of map[string]int) string {
	if len(of) == 0 {
		return ""
	}
	var all []string
	for _, cause := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", cause, of[cause]))
	}
	return " (" + strings.Join(all[:min(len(all), 5)], ", ") + ")"
}
