package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// measure is the whole run: on each site in turn, and on the first also all
// that needs but one.
func measure(ctx context.Context, o *options) (*report, error) {
	r := &report{subjects: o.subjects, callers: o.callers, keys: o.keys, cancel: o.cancel, cells: cells{}}
	delays := []time.Duration{0}
	if o.delay > 0 {
		delays = append(delays, o.delay)
	}
	clusters := []bool{false}
	if o.cluster {
		clusters = append(clusters, true)
	}
	var makeups map[string]makeup
	for _, cluster := range clusters {
		for _, delay := range delays {
			s, err := openSite(ctx, cluster, delay)
			if err != nil {
				return nil, err
			}
			if len(r.sites) == 0 {
				makeups, err = r.alone(ctx, s, o)
			}
			if err == nil {
				err = r.compare(ctx, s, o, makeups)
			}
			s.close()
			if err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// alone is what is measured on a standalone server only.
func (r *report) alone(ctx context.Context, s *site, o *options) (map[string]makeup, error) {
	version, err := s.version(ctx)
	if err != nil {
		return nil, err
	}
	r.made = made(o, version)
	makeups, err := learn(ctx, s, o.subjects)
	if err != nil {
		return nil, err
	}
	if r.weights, err = weigh(ctx, s, o.subjects); err != nil {
		return nil, err
	}
	if o.most == 0 {
		return makeups, nil
	}
	return makeups, errors.Join(r.grow(ctx, s, o), s.flush(ctx))
}

// grow measures the curves.
func (r *report) grow(ctx context.Context, s *site, o *options) error {
	beside := slices.IndexFunc(subjects, func(s subject) bool { return s.name == plainName })
	growing := []subject{subjects[beside]}
	for _, sub := range o.subjects {
		if sub.grows && !sub.floor() {
			growing = append(growing, sub)
		}
	}
	makeups, err := learn(ctx, s, growing)
	if err != nil {
		return err
	}
	in, err := enter(ctx, s, growing, dayLimit, makeups)
	if err != nil {
		return err
	}
	for _, e := range in[1:] {
		c, err := growLimit(ctx, s, e.subject, makeups, o.limit, o.plan)
		if err != nil {
			return err
		}
		r.byLimit = append(r.byLimit, c)
		if c, err = growKeys(ctx, s, e, in[0], o.most, o.plan); err != nil {
			return err
		}
		r.byKeys = append(r.byKeys, c)
	}
	return nil
}

// compare races all subjects that can be at a site.
func (r *report) compare(ctx context.Context, s *site, o *options, makeups map[string]makeup) error {
	in, err := enter(ctx, s, o.subjects, dayLimit, makeups)
	if err != nil {
		return err
	}
	found, refused, err := race(ctx, s, in, o.callers, o.plan)
	if err != nil {
		return err
	}
	maps.Copy(r.cells, found)
	r.sites = append(r.sites, s.String())
	r.refused += refused
	return nil
}

// made says when, how and on what a run was made.
func made(o *options, server string) []string {
	return []string{
		"Date: " + time.Now().UTC().Format("2 January 2006"),
		"Command, in `bench`: `" + o.command + "`",
		fmt.Sprintf("%d rounds of slices of %v", o.rounds, o.slice),
		fmt.Sprintf("Machine: %s/%s, %d cores, which callers and servers share; all over loopback", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		"Server: " + server + ", without persistence",
		"Client: " + runtime.Version() + ", " + strings.Join(modules(), ", "),
	}
}

// modules are the versions of those that are compared.
func modules() []string {
	var all []string
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, m := range info.Deps {
		for _, part := range []string{"/go-redis/v9", "/redis_rate/", "/throttled/", "/ulule/", "/httprate", "/rueidis"} {
			if strings.Contains(m.Path, part) {
				all = append(all, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
				break
			}
		}
	}
	return all
}
