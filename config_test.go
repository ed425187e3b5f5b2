package siglakecol_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/healthcheckv2extension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/nopexporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/nopreceiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/exporter/siglakeexporter"
	"github.com/siglakecol/siglakecol/extension/ingestparams"
	"github.com/siglakecol/siglakecol/extension/lakecompactor"
	"github.com/siglakecol/siglakecol/extension/walmirror"
)

// factories are the components that shipped configurations and the examples of the documents use.
func factories(t *testing.T) otelcol.Factories {
	t.Helper()
	var err error
	f := otelcol.Factories{Telemetry: telemetry.NewFactory(func() component.Config { return &map[string]any{} })}
	f.Extensions, err = otelcol.MakeFactoryMap[extension.Factory](ingestparams.NewFactory(), lakecompactor.NewFactory(), walmirror.NewFactory(),
		healthcheckv2extension.NewFactory(), filestorage.NewFactory())
	require.NoError(t, err)
	f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory(), nopreceiver.NewFactory())
	require.NoError(t, err)
	f.Processors, err = otelcol.MakeFactoryMap[processor.Factory](memorylimiterprocessor.NewFactory())
	require.NoError(t, err)
	f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](siglakeexporter.NewFactory(), otlpexporter.NewFactory(), nopexporter.NewFactory())
	require.NoError(t, err)
	return f
}

// load resolves, decodes and validates a configuration as the Collector does, and returns it with its
// effective form.
func load(t *testing.T, uris ...string) (*otelcol.Config, *confmap.Conf) {
	t.Helper()
	provider, err := otelcol.NewConfigProvider(otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
		URIs:              uris,
		ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory(), envprovider.NewFactory(), yamlprovider.NewFactory()},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(t.Context())) })
	cfg, err := provider.Get(t.Context(), factories(t))
	require.NoError(t, err)
	require.NoError(t, confmap.Validate(cfg))
	effective := confmap.New()
	require.NoError(t, effective.Marshal(cfg))
	return cfg, effective
}

// keepsAck runs the check that the Collector runs at start and wants neither an error nor a warning.
func keepsAck(t *testing.T, effective *confmap.Conf) {
	t.Helper()
	core, logs := observer.New(zapcore.WarnLevel)
	f := ingestparams.NewFactory()
	set := extensiontest.NewNopSettings(f.Type())
	set.Logger = zap.New(core)
	ext, err := f.Create(t.Context(), set, f.CreateDefaultConfig())
	require.NoError(t, err)
	watcher, ok := ext.(extensioncapabilities.ConfigSnapshotWatcher)
	require.True(t, ok)
	require.NoError(t, watcher.NotifyConfigSnapshot(t.Context(), extensioncapabilities.NewConfigSnapshot(effective, effective)))
	require.Empty(t, logs.All())
}

// ACK-1: what we ship starts, and its answers mean what they say.
func TestShippedConfigurations(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("config", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range []string{"SIGLAKE_DATA", "SIGLAKE_OTLP_GRPC", "SIGLAKE_OTLP_HTTP", "SIGLAKE_HEALTH", "SIGLAKE_METRICS_PORT", "SIGLAKE_CATALOG", "SIGLAKE_WAREHOUSE"} {
		t.Setenv(name, "") // to be restored
		require.NoError(t, os.Unsetenv(name))
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		uris := []string{"file:" + file}
		if !strings.Contains(string(raw), "\nservice:") { // to be laid over another
			uris = []string{"file:" + filepath.Join("config", "default.yaml"), uris[0]}
		}
		_, effective := load(t, uris...)
		keepsAck(t, effective)
	}

	// The fixed interface: all data below one directory, one set of addresses.
	for _, want := range []string{"./data", "/var/lib/siglake"} {
		if want != "./data" { // the default comes first: nothing is set yet
			t.Setenv("SIGLAKE_DATA", want)
		}
		cfg, effective := load(t, "file:"+filepath.Join("config", "default.yaml"))
		drain, ok := cfg.Extensions[component.MustNewID("lakecompactor")].(*lakecompactor.Config)
		require.True(t, ok)
		require.Equal(t, "sqlite://"+want+"/catalog.db", string(drain.Catalog))
		for key, value := range map[string]any{
			"exporters::siglake::wal::directory":                      want + "/wal",
			"extensions::lakecompactor::wal_directory":                want + "/wal",
			"extensions::lakecompactor::warehouse":                    want + "/warehouse",
			"extensions::lakecompactor::catalog":                      "[REDACTED]", // it may hold a password
			"receivers::otlp::protocols::grpc::endpoint":              "localhost:4317",
			"receivers::otlp::protocols::http::endpoint":              "localhost:4318",
			"extensions::healthcheckv2::http::endpoint":               "localhost:13133",
			"receivers::otlp::protocols::grpc::max_recv_msg_size_mib": 20,
		} {
			require.Equal(t, value, effective.Get(key), key)
		}
	}
}

// Each complete example of the documents starts, too.
func TestExamplesOfTheDocuments(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("docs", "*.md"))
	require.NoError(t, err)
	readmes, err := filepath.Glob(filepath.Join("ext*", "*", "README.md"))
	require.NoError(t, err)
	examples := 0
	for _, file := range append(files, readmes...) {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
			if !strings.Contains(block[1], "\nservice:") {
				continue // a fragment
			}
			examples++
			_, effective := load(t, "yaml:"+block[1])
			if strings.Contains(block[1], "siglake:") && strings.Contains(block[1], "ingestparams:") {
				keepsAck(t, effective)
			}
		}
	}
	require.GreaterOrEqual(t, examples, 3)
}
