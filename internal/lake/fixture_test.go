package lake

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// noWait makes a commit try again at once.
func noWait(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) }

// lakeAt opens the lake of a directory; the test closes it.
func lakeAt(tb testing.TB, dir string, h hooks) *Lake {
	tb.Helper()
	if h.wait == nil {
		h.wait = noWait
	}
	l, err := open(tb.Context(), Options{
		Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse"),
	}, h)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

func events(tb testing.TB, l *Lake) *Table {
	tb.Helper()
	t, _, err := l.Ensure(tb.Context(), "default", "events", otelarrow.Logs)
	require.NoError(tb, err)
	return t
}

// record is one log record of a test.
type record struct {
	at      time.Time
	body    string
	service string
	event   string
	trace   byte // first byte of the trace id; 0: none
	// traceLow are the last bytes of the trace id.
	traceLow uint16
}

func (r record) traceID() pcommon.TraceID {
	id := pcommon.TraceID{r.trace}
	binary.BigEndian.PutUint16(id[14:], r.traceLow)
	return id
}

var day0 = time.Date(2026, 5, 17, 12, 0, 0, 0, time.UTC)

// rowsAt makes records a second apart, with the position in the body.
func rowsAt(at time.Time, n int) []record {
	out := make([]record, n)
	for i := range out {
		out[i] = record{at: at.Add(time.Duration(i) * time.Second), body: fmt.Sprintf("row %d", i), service: "shop"}
	}
	return out
}

// segment makes a segment of two batches, if it has two rows.
func segment(tb testing.TB, id string, rows []record) Segment {
	tb.Helper()
	half := len(rows) / 2
	s := Segment{ID: id, Rows: int64(len(rows))}
	for _, part := range [][]record{rows[:half], rows[half:]} {
		if len(part) > 0 {
			s.Batches = append(s.Batches, batchOf(tb, part))
		}
	}
	return s
}

func batchOf(tb testing.TB, rows []record) arrow.RecordBatch {
	tb.Helper()
	ld := plog.NewLogs()
	var sl plog.ScopeLogs
	last := "\x00"
	for _, r := range rows {
		if r.service != last {
			rl := ld.ResourceLogs().AppendEmpty()
			if last = r.service; last != "" {
				rl.Resource().Attributes().PutStr("service.name", last)
			}
			sl = rl.ScopeLogs().AppendEmpty()
		}
		lr := sl.LogRecords().AppendEmpty()
		lr.SetTimestamp(pcommon.Timestamp(r.at.UnixNano()))
		lr.Body().SetStr(r.body)
		lr.SetEventName(r.event)
		if r.trace != 0 {
			lr.SetTraceID(r.traceID())
		}
	}
	times := make([]int64, len(rows))
	for i, r := range rows {
		times[i] = r.at.UnixNano()
	}
	return withTimes(tb, encoded(tb, ld), times)
}

// withTimes replaces timestamp_ns: OTLP has no times before 1970, an Arrow batch has.
func withTimes(tb testing.TB, rec arrow.RecordBatch, times []int64) arrow.RecordBatch {
	tb.Helper()
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(times, nil)
	out, err := rec.SetColumn(rec.Schema().FieldIndices(colTimestampNs)[0], b.NewArray())
	require.NoError(tb, err)
	return out
}

func encoded(tb testing.TB, ld plog.Logs) arrow.RecordBatch {
	tb.Helper()
	b, err := otelarrow.EncodeLogs(ld, day0, memory.DefaultAllocator)
	require.NoError(tb, err)
	return b.Record
}

// newSegment is a segment of n rows made now.
func newSegment(tb testing.TB, seq uint64, n int) Segment {
	tb.Helper()
	return segment(tb, testID(tb, time.Now(), seq), rowsAt(day0, n))
}

// stored is a row as a reader sees it.
type stored struct {
	segment string
	row     int64
	ns      int64
	body    string
}

// readAll scans a table with iceberg-go's reader, which shares no code with the lake's own lookup.
func readAll(tb testing.TB, l *Lake, opts ...table.ScanOption) []stored {
	tb.Helper()
	t, err := l.open(context.Background(), table.Identifier{"siglake", "events"})
	require.NoError(tb, err)
	opts = append(opts, table.WithSelectedFields(colSegmentID, colSegmentRow, colTimestampNs, "body"))
	_, batches, err := t.Scan(opts...).ToArrowRecords(context.Background())
	require.NoError(tb, err)
	var out []stored
	for rec, err := range batches {
		require.NoError(tb, err)
		column := func(name string) arrow.Array { return rec.Column(rec.Schema().FieldIndices(name)[0]) }
		ids, ok := column(colSegmentID).(*array.String)
		require.True(tb, ok)
		for i := range int(rec.NumRows()) {
			out = append(out, stored{
				segment: ids.Value(i),
				row:     column(colSegmentRow).(*array.Int64).Value(i),
				ns:      column(colTimestampNs).(*array.Int64).Value(i),
				body:    column("body").(*array.String).Value(i),
			})
		}
		rec.Release()
	}
	return out
}

// requireExactly checks LAKE-1 for the segments: each row once, none besides.
func requireExactly(tb testing.TB, l *Lake, segs ...Segment) {
	tb.Helper()
	got := map[string]int{}
	for _, r := range readAll(tb, l) {
		got[fmt.Sprintf("%s/%d", r.segment, r.row)]++
	}
	want := map[string]int{}
	for _, s := range segs {
		for i := range s.Rows {
			want[fmt.Sprintf("%s/%d", s.ID, i)] = 1
		}
	}
	require.Equal(tb, want, got)
}

// manifestFiles are the data files of the current snapshot as the manifests describe them.
func manifestFiles(tb testing.TB, l *Lake) []iceberg.DataFile {
	tb.Helper()
	t, err := l.open(context.Background(), table.Identifier{"siglake", "events"})
	require.NoError(tb, err)
	var out []iceberg.DataFile
	for df, err := range l.dataFiles(t.CurrentSnapshot()) {
		require.NoError(tb, err)
		out = append(out, df)
	}
	return out
}

func committed(segs ...Segment) map[string]int64 {
	out := map[string]int64{}
	for _, s := range segs {
		out[s.ID] = s.Rows
	}
	return out
}

// filesUnder lists all files below a directory, without their directory.
func filesUnder(tb testing.TB, dir, suffix string) []string {
	tb.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*", "*"+suffix))
	require.NoError(tb, err)
	out := make([]string, 0, len(all))
	for _, f := range all {
		out = append(out, strings.TrimPrefix(f, dir+"/"))
	}
	slices.Sort(out)
	return out
}
