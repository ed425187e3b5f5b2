package siglakeexporter

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.yaml.in/yaml/v3"
)

// declared is the part of metadata.yaml that code must agree with.
type declared struct {
	Type       string `yaml:"type"`
	ScopeName  string `yaml:"scope_name"`
	Attributes map[string]struct {
		Name string   `yaml:"name_override"`
		Enum []string `yaml:"enum"`
	} `yaml:"attributes"`
	Telemetry struct {
		Metrics map[string]struct {
			Description string   `yaml:"description"`
			Unit        string   `yaml:"unit"`
			Attributes  []string `yaml:"attributes"`
		} `yaml:"metrics"`
	} `yaml:"telemetry"`
}

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
	m, err := newMetrics(tel.NewTelemetrySettings().MeterProvider.Meter(scopeName))
	require.NoError(t, err)
	for _, mode := range []Mode{modeMirrored, modeForce} {
		m.waited(t.Context(), mode, time.Second, nil) // a histogram shows itself with its first value
	}

	var rm metricdata.ResourceMetrics
	require.NoError(t, tel.Reader.Collect(t.Context(), &rm))
	require.Len(t, rm.ScopeMetrics, 1)
	require.Len(t, rm.ScopeMetrics[0].Metrics, len(want.Telemetry.Metrics))
	for _, got := range rm.ScopeMetrics[0].Metrics {
		w, ok := want.Telemetry.Metrics[got.Name]
		require.True(t, ok, got.Name)
		require.Equal(t, w.Description, got.Description)
		require.Equal(t, w.Unit, got.Unit)
		require.Len(t, w.Attributes, 1)
		attr := want.Attributes[w.Attributes[0]]
		name := cmp.Or(attr.Name, w.Attributes[0])
		if h, ok := got.Data.(metricdata.Histogram[float64]); ok {
			require.Len(t, h.DataPoints, len(attr.Enum))
			continue
		}
		// Each label set exists at zero from the start, so that an alert sees the first event.
		sum, ok := got.Data.(metricdata.Sum[int64])
		require.True(t, ok)
		var labels []string
		for _, dp := range sum.DataPoints {
			require.Zero(t, dp.Value)
			require.Equal(t, 1, dp.Attributes.Len())
			v, ok := dp.Attributes.Value(attribute.Key(name))
			require.True(t, ok)
			labels = append(labels, v.AsString())
		}
		require.ElementsMatch(t, attr.Enum, labels)
	}
}
