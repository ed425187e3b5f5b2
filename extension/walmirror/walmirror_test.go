package walmirror

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"go.yaml.in/yaml/v3"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// MIR-1 is not held in this version: a bucket must not look as if it were.
func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, componenttest.CheckConfigStruct(createDefaultConfig()))
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	for id, want := range map[string]struct {
		cfg *Config
		err string
	}{
		"walmirror":        {cfg: &Config{Prefix: "wal-mirror"}},
		"walmirror/prefix": {cfg: &Config{Prefix: "other"}},
		"walmirror/bucket": {
			cfg: &Config{BucketURL: "s3://user:secret@telemetry/dir?token=secret", Prefix: "wal-mirror"},
			err: `bucket_url: "s3://telemetry": mirroring is not built in this version; remove the key (rows are then on the local volume only, until the compactor commits them)`,
		},
	} {
		sub, err := conf.Sub(id)
		require.NoError(t, err)
		cfg := createDefaultConfig()
		require.NoError(t, sub.Unmarshal(cfg))
		require.Equal(t, want.cfg, cfg)
		if want.err == "" {
			require.NoError(t, confmap.Validate(cfg))
		} else {
			require.EqualError(t, confmap.Validate(cfg), want.err)
		}
	}
	require.EqualError(t, (&Config{BucketURL: "secret"}).Validate(),
		`bucket_url: "(not a URL)": mirroring is not built in this version; remove the key (rows are then on the local volume only, until the compactor commits them)`)
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.WarnLevel)
	tel := componenttest.NewTelemetry()
	f := NewFactory()
	set := extensiontest.NewNopSettings(f.Type())
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = zap.New(core)

	ext, err := f.Create(t.Context(), set, f.CreateDefaultConfig())
	require.NoError(t, err)
	require.NoError(t, ext.Shutdown(t.Context()), "shutdown without start")

	ext, err = f.Create(t.Context(), set, f.CreateDefaultConfig())
	require.NoError(t, err)
	require.NoError(t, ext.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, ext.Shutdown(t.Context()))
	require.NoError(t, ext.Shutdown(t.Context()), "shutdown twice")
	require.Equal(t, 1, logs.Len())
	require.Contains(t, logs.All()[0].Message, "exist on the volume of the WAL only")

	// metadata.yaml declares no metric, so there is none.
	var rm metricdata.ResourceMetrics
	require.NoError(t, tel.Reader.Collect(t.Context(), &rm))
	require.Empty(t, rm.ScopeMetrics)
	require.NoError(t, tel.Shutdown(t.Context()))
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	var want struct {
		Type      string `yaml:"type"`
		Telemetry any    `yaml:"telemetry"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &want))
	require.Equal(t, want.Type, NewFactory().Type().String())
	require.Nil(t, want.Telemetry)
}
