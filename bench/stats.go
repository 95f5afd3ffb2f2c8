package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stats are what servers have done since they were started.
type stats struct {
	cpu      float64 // s, user and system
	commands map[string]commandStats
}

type commandStats struct{ calls, micros float64 }

// stats adds up the servers of a site.
func (s *site) stats(ctx context.Context) (stats, error) {
	sum := stats{commands: map[string]commandStats{}}
	for _, node := range s.nodes {
		text, err := node.Info(ctx, "cpu", "commandstats").Result()
		if redis.HasErrorPrefix(err, "ERR") { // Redis 6 takes one section
			var cpuText string
			cpuText, err = node.Info(ctx, "cpu").Result()
			if err == nil {
				text, err = node.Info(ctx, "commandstats").Result()
			}
			text += cpuText
		}
		if err != nil {
			return sum, err
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch {
			case name == "used_cpu_user" || name == "used_cpu_sys":
				seconds, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return sum, err
				}
				sum.cpu += seconds
			case strings.HasPrefix(name, "cmdstat_"):
				var calls, micros float64
				if _, err := fmt.Sscanf(value, "calls=%g,usec=%g", &calls, &micros); err != nil {
					return sum, fmt.Errorf("%s: %w", line, err)
				}
				name = strings.TrimPrefix(name, "cmdstat_")
				was := sum.commands[name]
				sum.commands[name] = commandStats{was.calls + calls, was.micros + micros}
			}
		}
	}
	return sum, nil
}

// A makeup is which commands a subject uses, and which share of the calls of
// each is sent by the client: the others are made by scripts, whose own time
// holds theirs.
type makeup map[string]float64

// between is what the commands of a makeup have done between two readings.
func (m makeup) between(was, is stats) (sent, ran, micros float64) {
	for name, share := range m {
		calls := is.commands[name].calls - was.commands[name].calls
		ran += calls
		sent += share * calls
		micros += share * (is.commands[name].micros - was.commands[name].micros)
	}
	return sent, ran, micros
}

// watch learns the makeup of what happens on a standalone server while f runs,
// from MONITOR, which tells commands of scripts apart.
func (s *site) watch(ctx context.Context, f func() error) (makeup, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addrs[0])
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err = conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err = conn.Write([]byte("MONITOR\r\n")); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	lines.Scan() // +OK: from here on it sees all
	failed := make(chan error, 1)
	go func() {
		err := f()
		const end = "the end of what is watched"
		if sent := s.nodes[0].Echo(ctx, end).Err(); err == nil {
			err = sent
		}
		failed <- err
	}()
	sent, ran := map[string]float64{}, map[string]float64{}
	for lines.Scan() {
		// +1339518083.107412 [0 127.0.0.1:60866] "evalsha" "…", and for a script [0 lua]
		_, rest, _ := strings.Cut(lines.Text(), " [")
		source, rest, _ := strings.Cut(rest, `] "`)
		name, _, _ := strings.Cut(rest, `"`)
		name = strings.ToLower(name)
		if name == "echo" {
			break
		}
		ran[name]++
		if !strings.HasSuffix(source, " lua") {
			sent[name]++
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	m := makeup{}
	for name, calls := range ran {
		switch name {
		case "hello", "client", "command", "cluster", "info": // connecting
		default:
			m[name] = sent[name] / calls
		}
	}
	return m, <-failed
}
