package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

func TestBadValues(t *testing.T) {
	t.Parallel()
	d := startDemo(t, redisAddr(t), "")
	before := d.state()

	for _, tt := range []struct{ path, body, field, says string }{
		{"/config", `{"rate":0}`, "rate", "rate is 0, it must be 1 to 100"},
		{"/config", `{"rate":101}`, "rate", "1 to 100"},
		{"/config", `{"rate":-1}`, "rate", "1 to 100"},
		{"/config", `{"rate":1.5}`, "rate", "rate must be a whole number, 1 to 100"},
		{"/config", `{"rate":"ten"}`, "rate", "a whole number, 1 to 100"},
		{"/config", `{"rate":1e40}`, "rate", "a whole number, 1 to 100"},
		{"/config", `{"period_ms":199}`, "period_ms", "200 to 30000"},
		{"/config", `{"period_ms":30001}`, "period_ms", "200 to 30000"},
		{"/config", `{"burst":-1}`, "burst", "0 to 100"},
		{"/config", `{"burst":101}`, "burst", "0 to 100"},
		{"/config", `{"cost":0}`, "cost", "1 to 100"},
		{"/config", `{"cost":101}`, "cost", "1 to 100"},
		{"/config", `{"key":""}`, "key", "1 to 64 letters"},
		{"/config", `{"key":"a{b}"}`, "key", "1 to 64 letters"},
		{"/config", `{"key":7}`, "key", "a string, 1 to 64 letters"},
		{"/config", `{"key":"` + strings.Repeat("k", 65) + `"}`, "key", "1 to 64 letters"},
		{"/config", `{"speed":1}`, "speed", `"speed" is no field`},
		{"/config", `{"rate":5,"cost":0}`, "cost", "1 to 100"},
		{"/config", `[]`, "", "one JSON object"},
		{"/config", ``, "", "one JSON object"},
		{"/config", `{} {}`, "", "one JSON object"},
		{"/test", `{"count":0}`, "count", "count is 0, it must be 1 to 100"},
		{"/test", `{"count":101}`, "count", "1 to 100"},
		{"/test", `{"count":true}`, "count", "a whole number, 1 to 100"},
		{"/traffic", `{"mode":"flood"}`, "mode", "one of pause, steady, random, boundary"},
		{"/traffic", `{"per_second":0}`, "per_second", "1 to 200"},
		{"/traffic", `{"per_second":201}`, "per_second", "1 to 200"},
		{"/reset", `{"key":"x"}`, "key", "is no field"},
	} {
		var answer fieldError
		d.post(tt.path, tt.body, http.StatusBadRequest, &answer)
		require.Equal(t, tt.field, answer.Field, tt.body)
		require.Contains(t, answer.Message, tt.says, tt.body)
	}
	after := d.state()
	require.Equal(t, before.Config, after.Config, "a refused change took effect")
	require.Equal(t, before.Traffic, after.Traffic)
	require.Nil(t, after.Panels[0].Last, "a refused request was sent")
}

func TestRefusesOtherSites(t *testing.T) {
	t.Parallel()
	d := startDemo(t, redisAddr(t), "")
	for name, tt := range map[string]struct {
		method, path, body, host string
		header                   map[string]string
		status                   int
	}{
		"a form":            {"POST", "/test", "count=1", "", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415},
		"text":              {"POST", "/test", "{}", "", map[string]string{"Content-Type": "text/plain"}, 415},
		"no content type":   {"POST", "/test", "{}", "", nil, 415},
		"another origin":    {"POST", "/test", "{}", "", map[string]string{"Content-Type": "application/json", "Origin": "http://example.com"}, 403},
		"cross-site":        {"POST", "/test", "{}", "", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, 403},
		"its own origin":    {"POST", "/test", "{}", "", map[string]string{"Content-Type": "application/json", "Origin": d.url}, 200},
		"a charset":         {"POST", "/test", "{}", "", map[string]string{"Content-Type": "application/json; charset=utf-8"}, 200},
		"a name of theirs":  {"GET", "/state", "", "rebound.example.com", nil, 403},
		"a large body":      {"POST", "/config", strings.Repeat(" ", maxBody+1), "", map[string]string{"Content-Type": "application/json"}, 413},
		"the wrong method":  {"GET", "/test", "", "", nil, 404},
		"a wrong method":    {"PUT", "/config", "{}", "", map[string]string{"Content-Type": "application/json"}, 405},
		"nothing there":     {"GET", "/nothing", "", "", nil, 404},
		"the page":          {"GET", "/", "", "", nil, 200},
		"a module":          {"GET", "/app.js", "", "", nil, 200},
		"out of the folder": {"GET", "/../main.go", "", "", nil, 404},
	} {
		request, err := http.NewRequest(tt.method, d.url+tt.path, strings.NewReader(tt.body))
		require.NoError(t, err)
		request.Host = tt.host
		for k, v := range tt.header {
			request.Header.Set(k, v)
		}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, tt.status, response.StatusCode, name)
		require.Contains(t, response.Header.Get("Content-Security-Policy"), "default-src 'self'", name)
	}
}

// A config takes effect at the next request, and what is sent shows.
func TestState(t *testing.T) {
	t.Parallel()
	d := startDemo(t, redisAddr(t), "")
	var c config
	d.post("/config", map[string]any{"rate": 7, "period_ms": 5000, "burst": 3, "cost": 2}, http.StatusOK, &c)
	require.Equal(t, config{7, 5000, 3, 2, d.key}, c)

	var answer struct{ Results []volley }
	d.post("/test", map[string]any{"count": 6}, http.StatusOK, &answer)
	require.Len(t, answer.Results, 5)
	passes := map[ratelimit.Algorithm]int{
		ratelimit.TokenBucket: 1, ratelimit.LeakyBucket: 1,
		ratelimit.FixedWindow: 3, ratelimit.SlidingWindowLog: 3, ratelimit.SlidingWindowCounter: 3,
	}
	for _, r := range answer.Results {
		require.Equal(t, passes[r.Algorithm], r.Allowed, r.Algorithm)
		require.Equal(t, 6-r.Allowed, r.Refused, r.Algorithm)
		require.Positive(t, r.Last.RetryAfter)
	}
	d.post("/config", map[string]any{"cost": 1}, http.StatusOK, nil)
	d.post("/test", `{}`, http.StatusOK, &answer)

	eventually(t, func() bool { return d.panel(ratelimit.SlidingWindowLog).Key.Bytes > 0 }, "MEMORY USAGE does not show")
	s := d.state()
	require.Equal(t, config{7, 5000, 3, 1, d.key}, s.Config)
	require.Equal(t, bounds, s.Bounds)
	require.Len(t, s.Panels, 5)
	for i, p := range s.Panels {
		require.Equal(t, algorithms[i].Title, p.About.Title)
		require.True(t, p.Last.Allowed, p.Algorithm)
		require.Equal(t, "HTTP/1.1", p.Last.Headers[0].Name)
		require.Equal(t, "RateLimit-Policy", p.Last.Headers[1].Name)
		require.Equal(t, "RateLimit", p.Last.Headers[2].Name)
		require.Equal(t, "demo:"+string(p.Algorithm)+":{"+d.key+"}", p.Key.Name)
		require.Positive(t, p.Key.TTL)
		require.Positive(t, p.MedianUS)
		require.Len(t, p.Bins, binsKept)
		sum := [2]int{}
		for _, b := range p.Bins {
			sum[0], sum[1] = sum[0]+b[0], sum[1]+b[1]
		}
		require.Equal(t, 2*passes[p.Algorithm]+1, sum[0], "units allowed, %s", p.Algorithm)
		require.Equal(t, 2*(6-passes[p.Algorithm]), sum[1], "units refused, %s", p.Algorithm)
	}
	require.Equal(t, [][2]string{{"value", "7"}}, s.Panels[2].Key.Fields)
	require.Len(t, s.Panels[3].Key.Fields, 6)
	require.EqualValues(t, 1, s.Panels[3].Key.More)

	d.post("/reset", `{}`, http.StatusOK, nil)
	eventually(t, func() bool { return d.panel(ratelimit.SlidingWindowLog).Key.Type == "" }, "reset leaves the key")
	require.Zero(t, d.panel(ratelimit.SlidingWindowLog).Most)
}
