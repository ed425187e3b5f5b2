package siglakeexporter

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/otelarrow/otlptest"
)

// LOUD-1: siglake_values_adjusted_total is, reason by reason, exactly what the rules of docs/tables.md say of what was
// sent, over generated requests and those of the adversarial folder; siglake_metrics_rowless_total likewise.
func TestExporter_counters_are_as_the_rules_predict(t *testing.T) {
	t.Parallel()
	payloads, err := otlptest.Payloads(os.DirFS("../../testbed/testdata/adversarial"))
	require.NoError(t, err)
	requests := make([]any, 0, len(payloads)+90)
	for _, p := range payloads {
		requests = append(requests, p.Data)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := otlptest.New(seed, true)
	for range 30 {
		ld, err := g.Logs()
		require.NoError(t, err)
		td, err := g.Traces()
		require.NoError(t, err)
		md, err := g.Metrics()
		require.NoError(t, err)
		requests = append(requests, ld, td, md)
	}

	r := newRig(t)
	le := r.logs(t)
	te, err := r.factory.CreateTraces(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	me, err := r.factory.CreateMetrics(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, te.Start(t.Context(), r.host))
	require.NoError(t, me.Start(t.Context(), r.host))
	want := map[string]int64{otlptest.DuplicateKey: 0, otlptest.InvalidUTF8: 0, otlptest.TimeClamped: 0, otlptest.CountClamped: 0}
	rowless := int64(0)
	for _, data := range requests {
		trip, err := otlptest.Sent(data)
		require.NoError(t, err)
		for reason, n := range trip.Adjusted {
			want[reason] += n
		}
		rowless += int64(trip.Rowless)
		switch data := data.(type) {
		case plog.Logs:
			err = le.ConsumeLogs(t.Context(), data)
		case ptrace.Traces:
			err = te.ConsumeTraces(t.Context(), data)
		case pmetric.Metrics:
			err = me.ConsumeMetrics(t.Context(), data)
		}
		require.NoError(t, err)
	}
	require.NoError(t, te.Shutdown(context.WithoutCancel(t.Context())))
	require.NoError(t, me.Shutdown(context.WithoutCancel(t.Context())))
	require.Equal(t, want, r.counts(t, "siglake_values_adjusted_total"))
	got := r.counts(t, "siglake_metrics_rowless_total")
	require.Equal(t, rowless, got[reasonNoPoints]+got[reasonNoType])
}
