package main

import (
	"fmt"
	"strings"
)

// summary is what is printed: the figures without the words.
func (r *report) summary() string {
	var b strings.Builder
	for _, site := range r.sites {
		fmt.Fprintf(&b, "%s\n\n", site)
		b.WriteString("times as good as the fastest peer of its kind\n")
		for _, m := range []metric{throughput, p50, p99, cpu} {
			b.WriteString(r.glance(site, m) + "\n")
		}
		b.WriteString(r.metrics(site, "decisions/s", throughput) + "\n")
		b.WriteString(r.metrics(site, "p50 / p99 / p99.9 µs", p50, p99, p999) + "\n")
		b.WriteString(r.overPing(site) + "\n")
		b.WriteString(r.metrics(site, "Redis CPU / time µs", cpu, busy) + "\n")
		b.WriteString(r.metrics(site, "commands sent / run", sent, ran) + "\n")
		b.WriteString(r.metrics(site, "allocations", allocs) + "\n")
	}
	b.WriteString(r.memory() + "\n")
	if len(r.byKeys) > 0 {
		b.WriteString(grown("Redis time µs, by keys", r.byKeys) + "\n")
	}
	if len(r.byLimit) > 0 {
		b.WriteString(grown("Redis time µs, by limit", r.byLimit) + "\n")
	}
	return b.String()
}

// document is docs/benchmarks.md.
func (r *report) document(pictures []picture) string {
	var b strings.Builder
	para := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n\n", args...) }
	part := func(table string) {
		if table != "" {
			b.WriteString(table + "\n")
		}
	}
	para("# Benchmarks")
	para("This page is written by `make bench`, all of it: the figures are those of one run.")
	for _, line := range r.made {
		b.WriteString("- " + line + "\n")
	}
	b.WriteString("\n")
	r.method(para)

	para("## At a glance")
	para("How many times as good as the fastest peer of its kind on go-redis each algorithm is, %s. Above 1 is better: more decisions a second, "+
		"less latency, less CPU. A ratio is taken within a round; this is the median of all rounds.", r.sites[0])
	for _, m := range []metric{throughput, p50, p99, cpu} {
		part(r.glance(r.sites[0], m))
	}
	for _, p := range pictures {
		para("![%s](img/bench/%s)", p.alt, p.file)
	}

	para("## Where a peer is better")
	para("All that the figures below say so of, from %.0f %% on: the metric, by how much at most, and where with how many callers. A peer that does less may well be faster: the figures do not weigh that.", 100*(notable-1))
	lost := r.lost()
	for _, item := range lost {
		b.WriteString(item + "\n")
	}
	if len(lost) == 0 {
		b.WriteString("Nowhere in this run.\n")
	}
	b.WriteString("\n")

	for _, site := range r.sites {
		para("## %s", strings.ToUpper(site[:1])+site[1:])
		part(r.metrics(site, "decisions a second", throughput))
		part(r.metrics(site, "p50 / p99 / p99.9 in µs", p50, p99, p999))
		part(r.overPing(site))
		part(r.metrics(site, "Redis CPU / Redis time in µs", cpu, busy))
		part(r.metrics(site, "commands sent / run", sent, ran))
		part(r.metrics(site, "allocations", allocs))
	}

	if len(r.weights) > 0 {
		para("## Memory")
		para("MEMORY USAGE of what a subject keeps for the key `user:12345`, and that over keys of the same names which hold the integer 1.")
		part(r.memory())
	}
	if len(r.byKeys) > 0 {
		para("## By the number of keys")
		para("Redis time in µs a decision with %d callers on random keys. A plain HMGET and HSET run in the same rounds, on as many keys in the same server: "+
			"the last column is how much a decision grows over how much they do.", growthCallers)
		part(grown("keys", r.byKeys))
	}
	if len(r.byLimit) > 0 {
		para("## By the limit")
		para("The same over the limit, nine tenths of which are used, on as many keys as have twice the largest limit in all, but at least 10.")
		part(grown("limit", r.byLimit))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// method says how it was measured.
func (r *report) method(para func(string, ...any)) {
	can := "can"
	if !r.cancel {
		can = "can't"
	}
	para("All subjects run in one process against the same server, in rounds: in each, every one gets a slice, in short turns whose order is drawn anew. "+
		"A figure is the median over the rounds; a p99.9 of fewer than 1000 decisions is the slowest. Callers make one call after the other, each on a random one of %d keys, with a context that %s be cancelled; "+
		"a limit is %d units a day, so that none is refused. Those on go-redis share one client with its default options. "+
		"Redis CPU is what `INFO cpu` counts, the kernel's share for the network included; Redis time is what `INFO commandstats` counts. "+
		"Allocations are those of the client, all of it. A delay is of the round trip, half each way, by a relay that holds each chunk for a fixed time.",
		r.keys, can, dayLimit)
	if r.refused > 0 {
		para("**%d decisions were refusals**: the run took more than the limits gave.", r.refused)
	}
	var lines []string
	for _, sub := range r.subjects {
		if note := notes[sub.name]; note != "" {
			lines = append(lines, "- "+sub.name+": "+note)
		}
	}
	if len(lines) > 0 {
		para("%s", strings.Join(lines, "\n"))
	}
}
