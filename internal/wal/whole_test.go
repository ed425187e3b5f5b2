package wal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// B8: 64 clients, three signals, 20 tenants, segments of 64 KiB on a real disk. Each segment begins with its magic and
// reads strictly, and each acknowledged row is in the segment of its receipt, once. `make race` runs it under the race
// detector. ACK-1, ACK-2, ORD-1.
func TestB8_every_segment_is_whole(t *testing.T) {
	t.Parallel()
	const clients, requests, tenants = 64, 24, 20
	dir := t.TempDir()
	opt := options(vfs.OS(), dir)
	opt.SegmentMaxBytes = 64 << 10
	opt.MaxAge = 50 * time.Millisecond
	l := open(t, opt)
	var ids atomic.Int64
	acked := make([]map[int64]string, clients)
	each(clients, func(c int) {
		acked[c] = map[int64]string{}
		enc := otelarrow.NewEncoder()
		for i := range requests {
			signal := otelarrow.Signal((c + i) % 3)
			mode := Mode((c + i/3) % int(modes))
			rows := 1 + (c*7+i*13)%40
			first := ids.Add(int64(rows)) - int64(rows) + 1
			r, err := telemetry(enc, signal, first, rows)
			if err != nil {
				t.Error(err)
				return
			}
			r.Tenant, r.Index, r.Mode = fmt.Sprintf("tenant-%d", (c*5+i)%tenants), signal.Table(), mode
			receipt, err := l.Append(t.Context(), r)
			if err != nil {
				t.Error(err)
				return
			}
			for n := range int64(rows) {
				acked[c][first+n] = receipt.Segment.String()
			}
		}
	})
	closeLog(t, l)

	stored := map[int64][]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*.arrow*"))
	require.NoError(t, err)
	for _, file := range files {
		require.Equal(t, "sealed", filepath.Base(filepath.Dir(file)))
		for _, id := range wholeSegment(t, file) {
			stored[id] = append(stored[id], filepath.Base(file))
		}
	}
	want := map[int64][]string{}
	for _, mine := range acked {
		for id, segment := range mine {
			want[id] = []string{segment + ".arrow"}
		}
	}
	require.Len(t, want, int(ids.Load()))
	require.Equal(t, want, stored)
	require.Greater(t, len(files), 3*tenants, "segments must have rolled")
}

// wholeSegment reads a segment strictly and returns the times of its rows, which tell them apart.
func wholeSegment(t *testing.T, file string) []int64 {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "LWAL", string(b[:4]), file)
	f, err := os.Open(file)
	require.NoError(t, err)
	seg, err := frame.Decode(f, int64(len(b)), frame.DecodeOptions{})
	require.NoError(t, err, file)
	defer seg.Release()
	require.NoError(t, f.Close())
	require.False(t, seg.Header.Partial)
	require.Zero(t, seg.TailDropped)
	var out []int64
	for _, batch := range seg.Batches {
		out = append(out, batch.Column(0).(*array.Int64).Int64Values()...)
	}
	return slices.Clone(out)
}

// telemetry is a request of rows whose times are first, first+1 and so on.
func telemetry(enc *otelarrow.Encoder, signal otelarrow.Signal, first int64, rows int) (Request, error) {
	at := func(i int) pcommon.Timestamp { return pcommon.Timestamp(first + int64(i)) }
	var batch otelarrow.Batch
	var err error
	switch signal {
	case otelarrow.Logs:
		ld := plog.NewLogs()
		records := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
		for i := range rows {
			lr := records.AppendEmpty()
			lr.SetTimestamp(at(i))
			lr.Body().SetStr(wide)
		}
		batch, err = enc.EncodeLogs(testTime, ld)
	case otelarrow.Traces:
		td := ptrace.NewTraces()
		spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
		for i := range rows {
			s := spans.AppendEmpty()
			s.SetStartTimestamp(at(i))
			s.SetEndTimestamp(at(i))
			s.SetName(wide)
		}
		batch, err = enc.EncodeTraces(testTime, td)
	default:
		md := pmetric.NewMetrics()
		m := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		points := m.SetEmptyGauge().DataPoints()
		for i := range rows {
			p := points.AppendEmpty()
			p.SetTimestamp(at(i))
			p.Attributes().PutStr("text", wide)
		}
		batch, err = enc.EncodeMetrics(testTime, md)
	}
	if err != nil {
		return Request{}, err
	}
	defer batch.Record.Release()
	schema := otelarrow.WALSchema(signal)
	body, err := message(schema, batch.Record)
	return Request{Schema: schema, Body: body, Rows: batch.Rows, MinTime: batch.MinTime, MaxTime: batch.MaxTime}, err
}

func message(schema *arrow.Schema, rec arrow.RecordBatch) ([]byte, error) {
	enc, err := frame.NewEncoder(schema)
	if err != nil {
		return nil, err
	}
	return enc.Append(nil, rec)
}
