package walmirror

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.yaml.in/yaml/v3"
)

// declared is the part of metadata.yaml that code must agree with.
type declared struct {
	Type       string `yaml:"type"`
	ScopeName  string `yaml:"scope_name"`
	Attributes map[string]struct {
		Enum []string `yaml:"enum"`
	} `yaml:"attributes"`
	Telemetry struct {
		Metrics map[string]struct {
			Description string         `yaml:"description"`
			Unit        string         `yaml:"unit"`
			Attributes  []string       `yaml:"attributes"`
			Histogram   map[string]any `yaml:"histogram"`
		} `yaml:"metrics"`
	} `yaml:"telemetry"`
}

// metadata.yaml says what the running component exports, and everything but a histogram is there from the start, at 0.
func TestMetadata(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	var want declared
	require.NoError(t, yaml.Unmarshal(raw, &want))
	require.Equal(t, want.Type, NewFactory().Type().String())
	require.Equal(t, want.ScopeName, scopeName)

	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) })
	set := extensiontest.NewNopSettings(NewFactory().Type())
	set.TelemetrySettings = tel.NewTelemetrySettings()
	cfg := load(t, "walmirror")
	cfg.BucketURL = "file://" + t.TempDir()
	ext, err := NewFactory().Create(t.Context(), set, cfg)
	require.NoError(t, err)
	w, ok := ext.(*walmirror)
	require.True(t, ok)
	require.NoError(t, w.Start(t.Context(), componenttest.NewNopHost()))
	_, err = w.Attach(filepath.Join(t.TempDir(), "wal"))
	require.NoError(t, err)

	var rm metricdata.ResourceMetrics
	require.NoError(t, tel.Reader.Collect(t.Context(), &rm))
	require.NoError(t, w.Shutdown(t.Context()))
	require.Len(t, rm.ScopeMetrics, 1)
	require.Equal(t, scopeName, rm.ScopeMetrics[0].Scope.Name)
	seen := map[string]bool{}
	for _, m := range rm.ScopeMetrics[0].Metrics {
		seen[m.Name] = true
		decl, ok := want.Telemetry.Metrics[m.Name]
		require.True(t, ok, "%s is exported and not declared", m.Name)
		require.Equal(t, decl.Description, m.Description, m.Name)
		require.Equal(t, decl.Unit, m.Unit, m.Name)
		sum, ok := m.Data.(metricdata.Sum[int64])
		if !ok || len(decl.Attributes) == 0 {
			continue
		}
		var labels []string
		for _, dp := range sum.DataPoints {
			require.Zero(t, dp.Value, m.Name)
			v, ok := dp.Attributes.Value(attribute.Key(decl.Attributes[0]))
			require.True(t, ok, m.Name)
			labels = append(labels, v.AsString())
		}
		slices.Sort(labels)
		enum := slices.Sorted(slices.Values(want.Attributes[decl.Attributes[0]].Enum))
		require.Equal(t, enum, labels, m.Name)
	}
	for name, decl := range want.Telemetry.Metrics {
		require.True(t, seen[name] || decl.Histogram != nil, "%s is declared and not exported", name)
	}
}
