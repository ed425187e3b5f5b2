package lakecompactor

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.yaml.in/yaml/v3"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// declared is the part of metadata.yaml that code must agree with.
type declared struct {
	Type       string `yaml:"type"`
	ScopeName  string `yaml:"scope_name"`
	Attributes map[string]struct {
		Enum []string `yaml:"enum"`
	} `yaml:"attributes"`
	Telemetry struct {
		Metrics map[string]declaredMetric `yaml:"metrics"`
	} `yaml:"telemetry"`
}

type declaredMetric struct {
	Description string         `yaml:"description"`
	Unit        string         `yaml:"unit"`
	Attributes  []string       `yaml:"attributes"`
	Values      []string       `yaml:"values"` // those that this metric has, of several attributes with a slash between them
	Sum         map[string]any `yaml:"sum"`
	Gauge       map[string]any `yaml:"gauge"`
	Histogram   map[string]any `yaml:"histogram"`
}

// metadata.yaml says what the running component exports, and everything but a histogram is there from the start.
func TestMetadata(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	var want declared
	require.NoError(t, yaml.Unmarshal(raw, &want))
	require.Equal(t, want.Type, NewFactory().Type().String())
	require.Equal(t, want.ScopeName, scopeName)

	got := collect(t, func(got map[string]metricdata.Metrics) bool {
		for name, w := range want.Telemetry.Metrics {
			if _, ok := got[name]; !ok && w.Histogram == nil {
				return false
			}
		}
		return true
	})
	for name, w := range want.Telemetry.Metrics {
		m, ok := got[name]
		if !ok {
			require.NotNil(t, w.Histogram, "%s is declared and not exported", name)
			continue
		}
		delete(got, name)
		require.Equal(t, w.Description, m.Description, name)
		require.Equal(t, w.Unit, m.Unit, name)
		compare(t, want, w, m)
	}
	require.Empty(t, got, "exported and not declared")
}

// compare holds kind, zero value and label sets of one metric against its declaration.
func compare(t *testing.T, want declared, w declaredMetric, m metricdata.Metrics) {
	t.Helper()
	var sets []attribute.Set
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		require.NotNil(t, w.Sum, m.Name)
		require.True(t, data.IsMonotonic, m.Name)
		for _, dp := range data.DataPoints {
			require.Zero(t, dp.Value, m.Name)
			sets = append(sets, dp.Attributes)
		}
	case metricdata.Gauge[int64]:
		require.NotNil(t, w.Gauge, m.Name)
		require.Len(t, data.DataPoints, max(1, len(w.Values)))
		for _, dp := range data.DataPoints {
			sets = append(sets, dp.Attributes)
		}
	case metricdata.Histogram[float64]:
		require.NotNil(t, w.Histogram, m.Name)
	case metricdata.Gauge[float64]:
		require.NotNil(t, w.Gauge, m.Name)
		require.Len(t, data.DataPoints, 1)
	default:
		require.Failf(t, "unexpected kind", "%s is a %T", m.Name, data)
	}
	if len(w.Attributes) == 0 {
		require.LessOrEqual(t, len(sets), 1, m.Name)
		return
	}
	var labels []string
	for _, set := range sets {
		var values []string
		for _, key := range w.Attributes {
			v, ok := set.Value(attribute.Key(key))
			require.True(t, ok, m.Name)
			values = append(values, v.AsString())
			if enum := want.Attributes[key].Enum; enum != nil {
				require.Contains(t, enum, v.AsString())
			}
		}
		labels = append(labels, strings.Join(values, "/"))
	}
	slices.Sort(labels)
	slices.Sort(w.Values)
	require.Equal(t, w.Values, labels, m.Name)
}

// collect starts the component and returns what it exports before it has done anything.
func collect(t *testing.T, complete func(map[string]metricdata.Metrics) bool) map[string]metricdata.Metrics {
	t.Helper()
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) })
	set := extensiontest.NewNopSettings(NewFactory().Type())
	set.TelemetrySettings = tel.NewTelemetrySettings()
	cfg, host := dirs(t), newHost()
	cfg.Promote = []PromoteConfig{{Attribute: "http.route"}}
	cfg.Mirror.BucketURL = "file://" + t.TempDir()
	ext, err := NewFactory().Create(t.Context(), set, cfg)
	require.NoError(t, err)
	require.NoError(t, ext.Start(t.Context(), host))
	for e := range host.events {
		if e.Status() == componentstatus.StatusOK {
			break
		}
		_, err := segment.Create(vfs.OS(), cfg.WALDirectory) // what it waits for
		require.NoError(t, err)
	}
	got := make(map[string]metricdata.Metrics)
	for end := time.Now().Add(timeout); time.Now().Before(end) && !complete(got); time.Sleep(tick) { // the lake opens meanwhile
		var rm metricdata.ResourceMetrics
		require.NoError(t, tel.Reader.Collect(t.Context(), &rm))
		clear(got)
		for _, sm := range rm.ScopeMetrics {
			require.Equal(t, scopeName, sm.Scope.Name)
			for _, m := range sm.Metrics {
				got[m.Name] = m
			}
		}
	}
	require.NoError(t, ext.Shutdown(t.Context()))
	return got
}
