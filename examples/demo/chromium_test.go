package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// A browser is a chromium with one page, whose complaints it keeps.
type browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // how chromedp names a page

	mu         sync.Mutex
	complaints []string
}

func findBrowser() (path string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("this test drives a browser: install chromium (Debian: apt-get install chromium)")
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := findBrowser()
	require.NoError(t, err)

	profile, err := os.MkdirTemp("", "demo-browser-") //nolint:usetesting // chromium may write for a moment after its end
	require.NoError(t, err)
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), //nolint:usetesting // it ends in the cleanup
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.WSURLReadTimeout(time.Minute))
	b := &browser{t: t}
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithListener(b.hear))
	b.ctx = ctx
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Log("chromium:", err)
		}
		cancel()
		cancelAllocator()
		for range 20 {
			if os.RemoveAll(profile) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err, "chromium does not start")
	_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	return b
}

// hear keeps console errors, exceptions and failed requests.
func (b *browser) hear(event any) {
	var complaint string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complaint = "exception: " + e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			complaint = fmt.Sprintf("console %s: %s", e.Type, e.Args[0].Value)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			complaint = fmt.Sprintf("log %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled { // a reload cancels the event stream
			complaint = "failed request: " + e.ErrorText
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			complaint = fmt.Sprintf("status %d: %s", e.Response.Status, e.Response.URL)
		}
	}
	if complaint != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.complaints = append(b.complaints, complaint)
	}
}

func (b *browser) complaintsSoFar() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.complaints
}

// do runs the steps, in a bounded time.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	evaluate(b, chromedp.Steps(steps...))
}

// evaluate runs an action, in a bounded time, for its value.
func evaluate[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, func(ctx context.Context, target *chromedp.Target) (T, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return action(ctx, target)
	})
	require.NoError(b.t, err)
	return v
}

// open shows the page, and waits until it has heard from its server.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url), chromedp.WaitReady(chromedp.CSS(`body[data-ready]`)))
}

// look makes the page so large, in the given color scheme.
func (b *browser) look(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
}

// text is what an element says, "" if it is hidden.
func (b *browser) text(selector string) string {
	b.t.Helper()
	return evaluate(b, chromedp.Evaluate[string](fmt.Sprintf(
		`(e => e && e.checkVisibility() ? e.textContent.trim() : '')(document.querySelector(%q))`, selector)))
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// fill types a value over what an input holds, and leaves it.
func (b *browser) fill(selector, value string) {
	b.t.Helper()
	b.do(
		chromedp.Focus(chromedp.CSS(selector)),
		chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void document.querySelector(%q).select()`, selector)),
		chromedp.SendKeys(chromedp.CSS(selector), value),
		chromedp.Blur(chromedp.CSS(selector)),
	)
}

// attribute is what an attribute of an element says.
func (b *browser) attribute(selector, name string) string {
	b.t.Helper()
	return evaluate(b, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector(%q).getAttribute(%q) ?? ''`, selector, name)))
}

// screenshot keeps a picture.
func (b *browser) screenshot(name string, take chromedp.Action[[]byte]) {
	b.t.Helper()
	folder := os.Getenv("DEMO_SCREENSHOTS")
	if folder == "" {
		folder = b.t.TempDir()
	}
	picture := evaluate(b, take)
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600))
	require.Greater(b.t, len(picture), 10_000, "an empty page?")
}
