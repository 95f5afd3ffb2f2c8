package ratelimit_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	readmeCode = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	docCode    = regexp.MustCompile(`(?m)^//\t.*\n(?:(?://\n)?//\t.*\n)*`)
)

// The Go code in the README and in the package comment occurs, line for line,
// in a source that the tests compile.
func TestDocumentationQuotesCode(t *testing.T) {
	t.Parallel()
	sources := sources(t)
	quotes := func(t *testing.T, code string) {
		t.Helper()
		code = outdent(code)
		require.NotEmpty(t, strings.TrimSpace(code))
		in := func(source string) bool { return strings.Contains(source, code) }
		require.True(t, slices.ContainsFunc(sources, in), "no source has this code:\n%s", code)
	}

	t.Run("README", func(t *testing.T) {
		t.Parallel()
		blocks := readmeCode.FindAllStringSubmatch(read(t, "README.md"), -1)
		require.NotEmpty(t, blocks)
		for _, block := range blocks {
			quotes(t, block[1])
		}
	})
	t.Run("package comment", func(t *testing.T) {
		t.Parallel()
		blocks := docCode.FindAllString(read(t, "doc.go"), -1)
		require.NotEmpty(t, blocks)
		uncomment := regexp.MustCompile(`(?m)^//\t?`)
		for _, block := range blocks {
			quotes(t, uncomment.ReplaceAllString(block, ""))
		}
	})
}

// The tests that a document names exist; one that ends in * is the start of some.
func TestDocumentationNamesTests(t *testing.T) {
	t.Parallel()
	all := strings.Join(sources(t), "")
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)(\\*?)`")
	for _, document := range []string{"README.md", "SECURITY.md", "docs/reliability.md"} {
		names := named.FindAllStringSubmatch(read(t, document), -1)
		require.NotEmpty(t, names, document)
		for _, name := range names {
			end := "("
			if name[2] == "*" {
				end = ""
			}
			require.Contains(t, all, "func "+name[1]+end, "%s names a test that does not exist", document)
		}
	}
}

// sources are the texts of all Go files in the tree.
func sources(t *testing.T) []string {
	t.Helper()
	var texts []string
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".go" {
			texts = append(texts, outdent(read(t, path)))
		}
		return err
	}))
	return texts
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// outdent is text with a newline before its first line and no space around any,
// so that what contains it contains whole lines.
func outdent(text string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line))
		b.WriteByte('\n')
	}
	return b.String()
}
