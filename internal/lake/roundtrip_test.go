package lake

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/otelarrow/otlptest"
)

var signals = []otelarrow.Signal{otelarrow.Logs, otelarrow.Traces, otelarrow.Metrics}

// From the table alone the OTLP that was sent can be rebuilt, all the way: request, Arrow, the bytes of a segment, Arrow
// again, Parquet files and manifests, rows, OTLP. What the rules of docs/tables.md adjust is counted exactly.
func TestRoundTrip_generated(t *testing.T) {
	t.Parallel()
	for _, signal := range signals {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			g := otlptest.New(seed, true)
			var parcels [][]any // requests by segment
			for i := range 12 {
				g.Dirty = i%3 > 0
				var requests []any
				for range 1 + g.IntN(4) {
					requests = append(requests, request(t, g, signal))
				}
				parcels = append(parcels, requests)
			}
			requireRoundTrip(t, signal, parcels)
		})
	}
}

// The same for each request of the adversarial folder that is taken.
func TestRoundTrip_adversarial(t *testing.T) {
	t.Parallel()
	payloads, err := otlptest.Payloads(os.DirFS("../../testbed/testdata/adversarial"))
	require.NoError(t, err)
	parcels := map[otelarrow.Signal][][]any{}
	for _, p := range payloads {
		signal := signalOf(p.Data)
		parcels[signal] = append(parcels[signal], []any{p.Data})
	}
	for _, signal := range signals {
		require.Greater(t, len(parcels[signal]), 20)
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			requireRoundTrip(t, signal, parcels[signal])
		})
	}
}

func request(tb testing.TB, g *otlptest.Gen, signal otelarrow.Signal) any {
	tb.Helper()
	var data any
	var err error
	switch signal {
	case otelarrow.Logs:
		data, err = g.Logs()
	case otelarrow.Traces:
		data, err = g.Traces()
	default:
		data, err = g.Metrics()
	}
	require.NoError(tb, err)
	return data
}

func signalOf(data any) otelarrow.Signal {
	switch data.(type) {
	case plog.Logs:
		return otelarrow.Logs
	case ptrace.Traces:
		return otelarrow.Traces
	default:
		return otelarrow.Metrics
	}
}

// TestRoundTrip_of_segments_without_entity_refs reads segments that a version before layout 2 wrote, of requests without
// entity references in them.
func TestRoundTrip_of_segments_without_entity_refs(t *testing.T) {
	t.Parallel()
	for _, signal := range signals {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile("testdata/layout1_" + signal.String() + ".arrow")
			require.NoError(t, err)
			decoded, err := frame.Decode(bytes.NewReader(data), int64(len(data)), frame.DecodeOptions{})
			require.NoError(t, err)
			defer decoded.Release()
			l := lakeAt(t, t.TempDir(), hooks{})
			table, _, err := l.Ensure(t.Context(), "default", signal.Table(), signal)
			require.NoError(t, err)
			seg := Segment{ID: testID(t, time.Now(), 1), Batches: decoded.Batches, Rows: decoded.Rows}
			_, err = table.Commit(t.Context(), []Segment{seg})
			require.NoError(t, err)
			trip, err := otlptest.Sent(sentBefore(t, signal))
			require.NoError(t, err)
			require.NoError(t, trip.Check(tableRows(t, l, signal.Table())[seg.ID]))
		})
	}
}

// sentBefore is the request in the segment of layout 1.
func sentBefore(t *testing.T, signal otelarrow.Signal) any {
	t.Helper()
	wire, err := os.ReadFile("testdata/layout1_" + signal.String() + ".pb")
	require.NoError(t, err)
	var data any
	switch signal {
	case otelarrow.Logs:
		data, err = (&plog.ProtoUnmarshaler{}).UnmarshalLogs(wire)
	case otelarrow.Traces:
		data, err = (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(wire)
	default:
		data, err = (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics(wire)
	}
	require.NoError(t, err)
	return data
}

// requireRoundTrip stores each parcel as one segment, all in one table, and rebuilds each from the table.
func requireRoundTrip(t *testing.T, signal otelarrow.Signal, parcels [][]any) {
	t.Helper()
	l := lakeAt(t, t.TempDir(), hooks{})
	table, _, err := l.Ensure(t.Context(), "default", signal.Table(), signal)
	require.NoError(t, err)
	var segs []Segment
	trips := map[string]otlptest.Trip{}
	for i, requests := range parcels {
		trip, err := otlptest.Sent(requests...)
		require.NoError(t, err)
		data, counted := segmentBytes(t, signal, requests)
		require.Equal(t, trip.Adjusted, counted, "parcel %d", i)
		decoded, err := frame.Decode(bytes.NewReader(data), int64(len(data)), frame.DecodeOptions{})
		require.NoError(t, err)
		defer decoded.Release()
		id := testID(t, time.Now(), uint64(i))
		if decoded.Rows > 0 {
			segs = append(segs, Segment{ID: id, Batches: decoded.Batches, Rows: decoded.Rows})
		}
		trips[id] = trip
	}
	out, err := table.Commit(t.Context(), segs)
	require.NoError(t, err)
	require.Equal(t, committed(segs...), out.Committed)
	rows := tableRows(t, l, signal.Table())
	for id, trip := range trips {
		require.NoError(t, trip.Check(rows[id]), "segment %s", id)
		delete(rows, id)
	}
	require.Empty(t, rows)
}

// segmentBytes is a sealed segment: one batch for each request, but the first two share one, as requests do that wait
// for the log together. It returns what was counted.
func segmentBytes(t *testing.T, signal otelarrow.Signal, requests []any) ([]byte, otlptest.Adjusted) {
	t.Helper()
	schema := otelarrow.WALSchema(signal)
	body, err := frame.EncodeSchema(schema)
	require.NoError(t, err)
	enc, err := frame.NewEncoder(schema)
	require.NoError(t, err)
	counted := otlptest.Adjusted{}
	encoder := otelarrow.NewEncoder()
	share := min(2, len(requests))
	for _, some := range append([][]any{requests[:share]}, slices.Collect(slices.Chunk(requests[share:], 1))...) {
		b := encodeRequests(t, encoder, some)
		for reason, n := range b.Adjusted.All() {
			if n > 0 {
				counted[reason] += n
			}
		}
		body, err = enc.Append(body, b.Record)
		require.NoError(t, err)
		b.Record.Release()
	}
	body = append(body, frame.EOS()...)
	h := frame.Header{BodyLen: uint64(len(body)), CRC: crc32.ChecksumIEEE(body)}
	head := h.Encode()
	return append(head[:], body...), counted
}

func encodeRequests(t *testing.T, e *otelarrow.Encoder, requests []any) otelarrow.Batch {
	t.Helper()
	var b otelarrow.Batch
	var err error
	switch requests[0].(type) {
	case plog.Logs:
		b, err = e.EncodeLogs(day0, all[plog.Logs](requests)...)
	case ptrace.Traces:
		b, err = e.EncodeTraces(day0, all[ptrace.Traces](requests)...)
	default:
		b, err = e.EncodeMetrics(day0, all[pmetric.Metrics](requests)...)
	}
	require.NoError(t, err)
	return b
}

func all[T any](requests []any) []T {
	out := make([]T, len(requests))
	for i, r := range requests {
		out[i] = r.(T)
	}
	return out
}

// tableRows reads the files that the manifests name, by segment, in the order of segment_row, which must have no gap.
func tableRows(t *testing.T, l *Lake, name string) map[string][]otlptest.Row {
	t.Helper()
	plan, err := l.Plan(t.Context(), "siglake", name)
	require.NoError(t, err)
	out := map[string][]otlptest.Row{}
	for _, f := range plan.Files {
		rows := parquetRows(t, f.Path)
		require.Len(t, rows, int(f.Rows), f.Path)
		for _, r := range rows {
			id := r[colSegmentID].(string)
			out[id] = append(out[id], r)
		}
	}
	for id, rows := range out {
		slices.SortFunc(rows, func(a, b otlptest.Row) int {
			return int(a[colSegmentRow].(int64) - b[colSegmentRow].(int64))
		})
		for i, r := range rows {
			require.EqualValues(t, i, r[colSegmentRow], "segment %s", id)
		}
	}
	return out
}

func parquetRows(t *testing.T, path string) []otlptest.Row {
	t.Helper()
	pf, err := file.OpenParquetFile(path, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, pf.Close()) }()
	fr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	require.NoError(t, err)
	table, err := fr.ReadTable(t.Context())
	require.NoError(t, err)
	defer table.Release()
	tr := array.NewTableReader(table, 0)
	defer tr.Release()
	var out []otlptest.Row
	for tr.Next() {
		rows, err := otlptest.RowsOf(tr.RecordBatch())
		require.NoError(t, err, fmt.Sprint(path))
		out = append(out, rows...)
	}
	require.NoError(t, tr.Err())
	return out
}
