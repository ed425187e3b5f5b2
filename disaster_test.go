package siglakecol_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/siglakecol/siglakecol/exporter/siglakeexporter"
	"github.com/siglakecol/siglakecol/extension/lakecompactor"
	"github.com/siglakecol/siglakecol/extension/walmirror"
)

// disaster is docs/operations/disaster-recovery.md.
func disaster(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("docs", "operations", "disaster-recovery.md"))
	require.NoError(t, err)
	return string(raw)
}

// Whoever reads the page at night finds every metric that it names, with those labels, and none that it says there is not.
// The commands on it are run by cmd/siglake.
func TestDisasterRecovery_metrics(t *testing.T) {
	t.Parallel()
	metrics, err := os.ReadFile("docs/metrics.md")
	require.NoError(t, err)
	names := regexp.MustCompile(`(siglake_[a-z_]+)(\*?)(?:\{([a-z]+)="([a-z_]+)"\})?`).FindAllStringSubmatch(disaster(t), -1)
	require.Greater(t, len(names), 20)
	for _, m := range names {
		if m[2] != "" {
			require.False(t, strings.Contains(string(metrics), m[1]), m[0]) //nolint:testifylint // the message would be all of the document
			continue
		}
		row := regexp.MustCompile("(?m)^\\| `" + m[1] + "` .*").FindString(string(metrics))
		require.NotEmpty(t, row, m[1])
		if m[3] != "" {
			require.Regexp(t, "`"+m[3]+"`: [a-z_, ]*\\b"+m[4]+"\\b", row, m[0])
		}
	}
}

// Every key on the page is one.
func TestDisasterRecovery_keys(t *testing.T) {
	t.Parallel()
	conf := confmap.New()
	for prefix, factory := range map[string]component.Factory{
		"exporters::siglake": siglakeexporter.NewFactory(), "extensions::walmirror": walmirror.NewFactory(), "extensions::lakecompactor": lakecompactor.NewFactory(),
	} {
		one := confmap.New()
		require.NoError(t, one.Marshal(factory.CreateDefaultConfig()))
		var nested any = one.ToStringMap()
		for _, part := range []string{strings.Split(prefix, "::")[1], strings.Split(prefix, "::")[0]} {
			nested = map[string]any{part: nested}
		}
		require.NoError(t, conf.Merge(confmap.NewFromStringMap(nested.(map[string]any)))) //nolint:forcetypeassert // made above
	}
	doc := disaster(t)
	keys := regexp.MustCompile("[`\\s]((?:[a-z_]+::)+[a-z_]+)`").FindAllStringSubmatch(doc, -1)
	require.Greater(t, len(keys), 8)
	for _, m := range keys {
		key := m[1]
		if !strings.HasPrefix(key, "ex") {
			key = "exporters::siglake::" + key
		}
		require.True(t, conf.IsSet(key), m[1])
	}
	for _, key := range []string{"bucket_url", "prefix", "active_interval", "sweep_interval", "shutdown_timeout"} {
		require.Contains(t, doc, "`"+key+"`")
		require.True(t, conf.IsSet("extensions::walmirror::"+key), key)
	}
	shipped, err := os.ReadFile("config/default.yaml")
	require.NoError(t, err)
	require.Contains(t, string(shipped), "max_age: 2s")
	require.Contains(t, doc, "`wal::segment::max_age` (2 s as shipped)")
}

// Every line of a log on the page is one that the code writes.
func TestDisasterRecovery_log_lines(t *testing.T) {
	t.Parallel()
	lines := regexp.MustCompile(`(?m)^(?:info|warn)  (.+?)  \{`).FindAllStringSubmatch(disaster(t), -1)
	require.GreaterOrEqual(t, len(lines), 7)
	var source strings.Builder
	for _, pattern := range []string{"internal/*/*.go", "exporter/*/*.go", "extension/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			if !strings.HasSuffix(file, "_test.go") {
				source.Write(raw)
			}
		}
	}
	for _, m := range lines {
		require.True(t, strings.Contains(source.String(), `"`+m[1]+`"`), m[1]) //nolint:testifylint // the message would be all of the source
	}
}
