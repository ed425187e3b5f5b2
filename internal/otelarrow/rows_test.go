package otelarrow_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/otelarrow/otlptest"
)

type row = otlptest.Row

// encode encodes a request of any signal with memory from mem.
func encode(tb testing.TB, data any, mem memory.Allocator) (otelarrow.Signal, otelarrow.Batch) {
	tb.Helper()
	var (
		sig otelarrow.Signal
		b   otelarrow.Batch
		err error
	)
	switch data := data.(type) {
	case plog.Logs:
		sig = otelarrow.Logs
		b, err = otelarrow.EncodeLogs(data, arrival, mem)
	case ptrace.Traces:
		sig = otelarrow.Traces
		b, err = otelarrow.EncodeTraces(data, arrival, mem)
	case pmetric.Metrics:
		sig = otelarrow.Metrics
		b, err = otelarrow.EncodeMetrics(data, arrival, mem)
	}
	require.NoError(tb, err)
	return sig, b
}

// tableOf takes a request the whole way: encode, IPC stream and back, gather in
// order. It checks what must hold for every request.
func tableOf(tb testing.TB, data any) ([]row, otelarrow.Batch) {
	tb.Helper()
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(tb, 0)
	sig, b := encode(tb, data, mem)
	require.True(tb, b.Record.Schema().Equal(otelarrow.WALSchema(sig)))
	require.EqualValues(tb, b.Rows, b.Record.NumRows())
	rec := roundTrip(tb, b.Record, mem)
	b.Record.Release()
	defer rec.Release()

	refs := make([]otelarrow.RowRef, b.Rows)
	for i := range refs {
		refs[i].Row = int32(i)
	}
	table, err := otelarrow.Gather(sig, []otelarrow.Source{{SegmentID: "seg", FirstRow: 40, Record: rec}}, refs, mem)
	require.NoError(tb, err)
	defer table.Release()
	require.True(tb, table.Schema().Equal(otelarrow.TableSchema(sig)))
	checkBounds(tb, rec, table)
	rows := rowsOf(tb, table)
	for i, r := range rows {
		require.Equal(tb, "seg", r["segment_id"])
		require.EqualValues(tb, 40+i, r["segment_row"])
		checkText(tb, r)
	}
	return rows, b
}

// checkBounds holds RowBytes and Timestamps against the table.
func checkBounds(tb testing.TB, rec, table arrow.RecordBatch) {
	tb.Helper()
	sizes, err := otelarrow.RowBytes(rec)
	require.NoError(tb, err)
	var sum, text int64
	for _, n := range sizes {
		sum += n
	}
	for _, c := range table.Columns() {
		text += textBytes(c.Data())
	}
	require.GreaterOrEqual(tb, sum, text, "RowBytes must not be below the text of the rows")
	times, err := otelarrow.Timestamps(rec)
	require.NoError(tb, err)
	require.Len(tb, times, int(rec.NumRows()))
}

func textBytes(d arrow.ArrayData) int64 {
	var n int64
	if d.DataType().ID() == arrow.STRING {
		n = int64(d.Buffers()[2].Len())
	}
	for _, c := range d.Children() {
		n += textBytes(c)
	}
	return n
}

func roundTrip(tb testing.TB, rec arrow.RecordBatch, mem memory.Allocator) arrow.RecordBatch {
	tb.Helper()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(rec.Schema()), ipc.WithAllocator(mem))
	require.NoError(tb, w.Write(rec))
	require.NoError(tb, w.Close())
	r, err := ipc.NewReader(&buf, ipc.WithAllocator(mem))
	require.NoError(tb, err)
	defer r.Release()
	require.True(tb, r.Next(), "%v", r.Err())
	back := r.RecordBatch()
	require.True(tb, array.RecordApproxEqual(rec, back, array.WithNaNsEqual(true), array.WithAbsTolerance(0)))
	back.Retain()
	return back
}

func rowsOf(tb testing.TB, rec arrow.RecordBatch) []row {
	tb.Helper()
	rows, err := otlptest.RowsOf(rec)
	require.NoError(tb, err)
	return rows
}

// checkText requires valid UTF-8 everywhere in a value.
func checkText(tb testing.TB, v any) {
	tb.Helper()
	switch v := v.(type) {
	case string:
		require.True(tb, utf8.ValidString(v), "%q", v)
	case map[string]string:
		for k, s := range v {
			if !utf8.ValidString(k) || !utf8.ValidString(s) {
				require.Failf(tb, "text is not UTF-8", "%q: %q", k, s)
			}
		}
	case []any:
		for _, e := range v {
			checkText(tb, e)
		}
	case row:
		for _, e := range v {
			checkText(tb, e)
		}
	}
}

// gatherAll gathers the rows of one batch in order.
func gatherAll(tb testing.TB, sig otelarrow.Signal, rec arrow.RecordBatch) []row {
	tb.Helper()
	refs := make([]otelarrow.RowRef, rec.NumRows())
	for i := range refs {
		refs[i].Row = int32(i)
	}
	table, err := otelarrow.Gather(sig, []otelarrow.Source{{Record: rec}}, refs, memory.DefaultAllocator)
	require.NoError(tb, err)
	return rowsOf(tb, table)
}
