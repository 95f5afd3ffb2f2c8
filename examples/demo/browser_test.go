package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/weirgo/ratelimit"
)

// TestBrowser does on the page what a visitor does.
func TestBrowser(t *testing.T) {
	server := startRedis(t)
	d := startDemo(t, server.addr, "")
	b := openBrowser(t)
	b.look(1280, 900, "light")
	b.open(d.url)
	v := &visit{b, d}

	v.changesTheLimit(t)
	v.usesTheKeyboard(t)
	v.burstsUntilRefused(t)
	v.waitsForTheCountdown(t)
	v.sendsABoundarySpike(t)
	v.reloads(t)
	v.losesRedis(t, server)
	require.Empty(t, b.complaintsSoFar(), "what the browser complains of")
}

type visit struct {
	*browser
	demo *running
}

// sees waits until the element says so.
func (v *visit) sees(t *testing.T, selector, says string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(v.text(selector), says) }, selector+" does not say "+says)
}

func (v *visit) changesTheLimit(t *testing.T) {
	v.sees(t, "#server", "Redis ")
	require.Empty(t, v.text("#banner"))
	v.sees(t, "#token_bucket .of", "of 10 tokens")
	v.sees(t, "#leaky_bucket .of", "of 1 ")

	v.fill(`[name="rate"]`, "5")
	v.fill(`[name="period_ms"]`, "1.5")
	v.sees(t, "#summary", "5 units every 1.5 s")
	v.sees(t, "#token_bucket .of", "of 5 tokens")
	require.Equal(t, config{Rate: 5, PeriodMS: 1500, Cost: 1, Key: v.demo.key}, v.demo.state().Config)

	// What is out of bounds is marked where it stands, and not sent.
	v.fill(`[name="rate"]`, "101")
	require.Equal(t, "true", v.attribute(`[name="rate"]`, "aria-invalid"))
	require.Equal(t, "1 to 100", v.text("#rate-hint"))
	at := v.demo.state().Now
	eventually(t, func() bool { return v.demo.state().Now > at+500 }, "time stands still") // and stays so
	require.Equal(t, "true", v.attribute(`[name="rate"]`, "aria-invalid"))
	v.fill(`[name="rate"]`, "5")
	require.Empty(t, v.attribute(`[name="rate"]`, "aria-invalid"))
	require.Equal(t, 5, v.demo.state().Config.Rate)
}

func (v *visit) usesTheKeyboard(t *testing.T) {
	const focused = `document.activeElement?.dataset.send ?? ''`
	v.do(chromedp.Focus(chromedp.CSS(`[name="key"]`)), chromedp.KeyEvent("\t"))
	require.Equal(t, "one", evaluate(v.browser, chromedp.Evaluate[string](focused)))
	v.do(chromedp.KeyEvent("\r"))
	for _, a := range algorithms {
		v.sees(t, "#"+string(a.ID)+" .story", "Allowed")
		v.sees(t, "#"+string(a.ID)+" .headers pre", "HTTP/1.1 200 OK")
		v.sees(t, "#"+string(a.ID)+" .headers pre", "RateLimit-Policy: ")
	}
	v.sees(t, "#spoken", "Fixed window: 1 allowed, 0 refused.")
	v.sees(t, "#fixed_window .key .name", "demo:fixed_window:{"+v.demo.key+"}")
}

func (v *visit) burstsUntilRefused(t *testing.T) {
	v.fill("#count", "20")
	v.click(`[data-send="burst"]`)
	for _, a := range algorithms {
		v.sees(t, "#"+string(a.ID)+" .story", "Refused")
		v.sees(t, "#"+string(a.ID)+" .headers pre", "HTTP/1.1 429 Too Many Requests")
		v.sees(t, "#"+string(a.ID)+" .headers pre", "Retry-After: ")
	}
	v.sees(t, "#fixed_window .remaining", "0")
	v.sees(t, "#sliding_window_log .value", "5")
	v.sees(t, "#sliding_window_log tbody tr:last-child th", "[4]")
}

func (v *visit) waitsForTheCountdown(t *testing.T) {
	v.click(`[data-mode="pause"]`)
	v.demo.post("/reset", struct{}{}, http.StatusOK, nil)
	v.fill(`[name="period_ms"]`, "3")
	v.sees(t, "#summary", "5 units every 3 s")
	v.click(`[data-send="burst"]`)
	const wait = "#fixed_window .wait"
	v.sees(t, wait, "in 2.")
	v.sees(t, wait, "in 1.")
	v.sees(t, wait, "in 0.")
	v.sees(t, wait, "now")
	v.click(`[data-send="one"]`)
	v.sees(t, "#fixed_window .story", "Allowed: a new window begins")
	v.sees(t, "#sliding_window_log .story", "Allowed")
}

func (v *visit) sendsABoundarySpike(t *testing.T) {
	for range 3 { // on a busy machine the first volley may come too late
		v.click(`[data-mode="boundary"]`)
		v.sees(t, "#note", "first volley")
		v.sees(t, "#note", "Spike sent: 10 requests")
		if v.text("#fixed_window .most") == "▲ 9" {
			break
		}
	}
	v.sees(t, "#fixed_window .most", "▲ 9")
	v.sees(t, "#fixed_window .over", "Window boundary: 9 passed within one period, the limit is 5")
	v.sees(t, "#sliding_window_log .most", "5")
	require.Empty(t, v.text("#sliding_window_log .over"))
	require.LessOrEqual(t, v.demo.panel(ratelimit.SlidingWindowLog).Most, 5)
	require.Equal(t, "true", v.attribute(`[data-mode="pause"]`, "aria-pressed"))
}

func (v *visit) reloads(t *testing.T) {
	v.fill("#per_second", "25")
	v.click(`[data-mode="steady"]`)
	v.sees(t, "#note", "25 requests a second")
	v.do(chromedp.Reload(), chromedp.WaitReady(chromedp.CSS(`body[data-ready]`)))
	v.sees(t, "#note", "25 requests a second")
	v.sees(t, "#fixed_window .most", "▲ ")
	require.Equal(t, "5", evaluate(v.browser, chromedp.Value(chromedp.CSS(`[name="rate"]`))))
	for range 3 { // the traffic goes on, and the charts move
		at := v.demo.panel(ratelimit.TokenBucket).Last.At
		eventually(t, func() bool { return v.demo.panel(ratelimit.TokenBucket).Last.At > at }, "no traffic")
	}
	most, err := strconv.Atoi(v.text("#sliding_window_log .most"))
	require.NoError(t, err)
	require.LessOrEqual(t, most, 5)
}

func (v *visit) losesRedis(t *testing.T, server *redisProcess) {
	server.stop(t)
	v.sees(t, "#banner", "No decisions: ")
	v.sees(t, "#token_bucket .story", "No decision")
	v.screenshot("demo-outage", chromedp.CaptureScreenshot())
	v.click(`[data-mode="pause"]`)
	v.sees(t, "#note", "Paused")
	server.start(t)
	eventually(t, func() bool { return v.text("#banner") == "" }, "the banner stays")
	v.click(`[data-send="one"]`)
	v.sees(t, "#fixed_window .story", "Allowed")
}

// TestLooks takes pictures, to be looked at, and holds the page to its width.
func TestLooks(t *testing.T) {
	d := startDemo(t, redisAddr(t), "")
	b := openBrowser(t)
	b.look(1280, 1000, "light")
	b.open(d.url)
	d.post("/config", map[string]any{"key": firstConfig.Key}, http.StatusOK, nil)
	d.post("/traffic", map[string]any{"mode": boundary}, http.StatusOK, nil)
	eventually(t, func() bool { return d.state().Traffic.Mode == pause }, "the spike does not end")
	time.Sleep(800 * time.Millisecond) // for a gap to see
	b.screenshot("demo-spike", chromedp.CaptureScreenshot())
	d.post("/traffic", map[string]any{"mode": random, "per_second": 8}, http.StatusOK, nil)
	time.Sleep(3 * time.Second)
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(width, 1000, scheme)
			name := fmt.Sprintf("demo-%d-%s", width, scheme)
			eventually(t, func() bool { return evaluate(b, chromedp.Evaluate[int64](`innerWidth`)) == width }, "the page has another width")
			require.Equal(t, width, evaluate(b, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)), "it scrolls sideways")
			time.Sleep(300 * time.Millisecond) // drawn anew
			b.screenshot(name, chromedp.CaptureScreenshot())
			b.screenshot(name+"-all", chromedp.FullScreenshot(100))
			b.do(chromedp.Evaluate[chromedp.Void](`void document.querySelector('#fixed_window').scrollIntoView()`))
			b.screenshot(name+"-panel", chromedp.CaptureScreenshot())
			b.do(chromedp.Evaluate[chromedp.Void](`void scrollTo(0, 0)`))
		}
	}
	require.LessOrEqual(t, d.panel(ratelimit.SlidingWindowLog).Most, firstConfig.Rate)
	require.Empty(t, b.complaintsSoFar())
}
