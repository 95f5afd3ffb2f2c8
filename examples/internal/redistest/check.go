package redistest

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// An Answer is what the program answered.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Request makes a request of the program, and reads the answer.
func (p *Program) Request(method, path string) Answer {
	p.tb.Helper()
	request, err := http.NewRequestWithContext(p.tb.Context(), method, "http://"+p.Addr+path, http.NoBody)
	require.NoError(p.tb, err)
	r, err := http.DefaultClient.Do(request)
	require.NoError(p.tb, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(p.tb, err)
	return Answer{r.StatusCode, r.Header, string(body)}
}

// Exhaust makes requests until one is refused. It requires that burst of them
// pass, and one more only for each time that refill has gone by, and that all of
// them tell of the policy, and the refusal how long to wait.
func (p *Program) Exhaust(method, path, policy string, burst int, refill time.Duration) {
	p.tb.Helper()
	state := `"` + policy + `";`
	start := time.Now()
	for passed := 0; ; passed++ {
		r := p.Request(method, path)
		require.Contains(p.tb, strings.Join(r.Header.Values("RateLimit-Policy"), ", "), state)
		require.Contains(p.tb, strings.Join(r.Header.Values("RateLimit"), ", "), state)
		if r.Status == http.StatusOK {
			require.Empty(p.tb, r.Header.Values("Retry-After"))
			require.LessOrEqual(p.tb, passed, burst+int(time.Since(start)/refill))
			continue
		}
		require.Equal(p.tb, http.StatusTooManyRequests, r.Status, r.Body)
		require.GreaterOrEqual(p.tb, passed, burst)
		require.Contains(p.tb, strings.Join(r.Header.Values("RateLimit"), ", "), state+"r=0;")
		require.Contains(p.tb, r.Header.Get("Cache-Control"), "no-store")
		require.Contains(p.tb, r.Body, "Too Many Requests")
		wait, err := strconv.Atoi(r.Header.Get("Retry-After"))
		require.NoError(p.tb, err)
		require.Positive(p.tb, wait)
		require.LessOrEqual(p.tb, time.Duration(wait-1)*time.Second, refill)
		return
	}
}
