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
)

// row is a table row: column name to nil, int64, float64, bool, string, []any for
// lists, row for structs, map[string]string for maps.
type row map[string]any

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
	rows := make([]row, rec.NumRows())
	for i := range rows {
		rows[i] = row{}
		for c, f := range rec.Schema().Fields() {
			rows[i][f.Name] = cell(tb, rec.Column(c), i)
		}
	}
	return rows
}

func cell(tb testing.TB, a arrow.Array, i int) any {
	tb.Helper()
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Int64:
		return a.Value(i)
	case *array.Int32:
		return int64(a.Value(i))
	case *array.Timestamp:
		return int64(a.Value(i))
	case *array.Float64:
		return a.Value(i)
	case *array.Boolean:
		return a.Value(i)
	case *array.String:
		return a.Value(i)
	case *array.Map:
		m := map[string]string{}
		lo, hi := a.ValueOffsets(i)
		keys, items := a.Keys().(*array.String), a.Items().(*array.String)
		for e := int(lo); e < int(hi); e++ {
			if _, twice := m[keys.Value(e)]; twice {
				require.Fail(tb, "a map with a key twice", keys.Value(e))
			}
			m[keys.Value(e)] = items.Value(e)
		}
		return m
	case *array.List:
		lo, hi := a.ValueOffsets(i)
		list := []any{}
		for e := int(lo); e < int(hi); e++ {
			list = append(list, cell(tb, a.ListValues(), e))
		}
		return list
	case *array.Struct:
		r := row{}
		for c, f := range a.DataType().(*arrow.StructType).Fields() {
			r[f.Name] = cell(tb, a.Field(c), i)
		}
		return r
	default:
		require.Failf(tb, "unknown column type", "%s", a.DataType())
		return nil
	}
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

// only picks the named columns of a row.
func (r row) only(names ...string) row {
	out := row{}
	for _, n := range names {
		out[n] = r[n]
	}
	return out
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
