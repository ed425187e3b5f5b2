package otelarrow_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/otelarrow/otlptest"
)

const rounds = 40

// From the table alone the OTLP that was sent can be rebuilt, and what the rules of docs/tables.md adjust is counted
// exactly. (All the way through segments, Parquet and Iceberg: TestRoundTrip in internal/lake.)
func TestProperty_OTLP_can_be_rebuilt(t *testing.T) {
	t.Parallel()
	for _, sig := range signals {
		for _, dirty := range []bool{false, true} {
			name := sig.String() + " clean"
			if dirty {
				name = sig.String() + " dirty"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := newGen(t, dirty)
				for range rounds {
					rebuilt(t, g.request(sig))
				}
			})
		}
	}
}

// rebuilt takes a request to table rows and back, compares, and returns what must have been counted.
func rebuilt(tb testing.TB, data any) otlptest.Adjusted {
	tb.Helper()
	rows, batch := tableOf(tb, data)
	trip, err := otlptest.Sent(data)
	require.NoError(tb, err)
	require.NoError(tb, trip.Check(rows))
	counted := otlptest.Adjusted{}
	for reason, n := range batch.Adjusted.All() {
		if n != 0 {
			counted[reason] = n
		}
	}
	require.Equal(tb, trip.Adjusted, counted)
	require.Equal(tb, trip.Rowless, batch.PointlessMetrics+batch.TypelessMetrics)
	return trip.Adjusted
}

// FuzzLogs, FuzzTraces and FuzzMetrics take any bytes that pdata decodes to table rows and back.
func FuzzLogs(f *testing.F)    { fuzz(f, otelarrow.Logs, &logspb.LogsData{}) }
func FuzzTraces(f *testing.F)  { fuzz(f, otelarrow.Traces, &tracepb.TracesData{}) }
func FuzzMetrics(f *testing.F) { fuzz(f, otelarrow.Metrics, &metricspb.MetricsData{}) }

func fuzz(f *testing.F, sig otelarrow.Signal, empty proto.Message) {
	f.Helper()
	b, err := proto.Marshal(empty)
	require.NoError(f, err)
	f.Add(b)
	for seed := range uint64(8) {
		g := gen{otlptest.New(seed, seed%2 == 1), f}
		f.Add(marshal(f, g.request(sig)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		data, err := otlptest.Decode(sig.String(), b, false)
		if err != nil {
			return
		}
		rebuilt(t, data)
	})
}

func marshal(tb testing.TB, data any) []byte {
	tb.Helper()
	var b []byte
	var err error
	switch data := data.(type) {
	case plog.Logs:
		b, err = (&plog.ProtoMarshaler{}).MarshalLogs(data)
	case ptrace.Traces:
		b, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(data)
	case pmetric.Metrics:
		b, err = (&pmetric.ProtoMarshaler{}).MarshalMetrics(data)
	}
	require.NoError(tb, err)
	return b
}
