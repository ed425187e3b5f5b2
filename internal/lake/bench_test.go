package lake

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// loadSegments are like those of a load test: records of about 510 bytes of protobuf from four services, eight
// attributes, ids of their own, in requests of 512 that arrive nearly in order.
func loadSegments(tb testing.TB, segments, rowsEach int) []Segment {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]Segment, segments)
	for s := range out {
		out[s] = Segment{ID: testID(tb, time.Now(), uint64(s)), Rows: int64(rowsEach)}
		for done := 0; done < rowsEach; done += 512 {
			at := day0.Add(time.Duration(s*rowsEach+done) * 50 * time.Microsecond)
			out[s].Batches = append(out[s].Batches, encoded(tb, loadRequest(rng, at, min(512, rowsEach-done))))
		}
	}
	return out
}

func loadRequest(rng *rand.Rand, at time.Time, records int) plog.Logs {
	ld := plog.NewLogs()
	for r := range 4 {
		rl := ld.ResourceLogs().AppendEmpty()
		res := rl.Resource().Attributes()
		res.PutStr("service.name", fmt.Sprintf("checkout-%d", r))
		res.PutStr("service.version", "1.27.3")
		res.PutStr("k8s.namespace.name", "shop")
		res.PutStr("k8s.pod.name", fmt.Sprintf("checkout-%d-7d4b9c6f5b-x2x%dz", r, r))
		res.PutStr("host.name", fmt.Sprintf("ip-10-0-0-%d.eu-central-1.compute.internal", r))
		sl := rl.ScopeLogs().AppendEmpty()
		sl.Scope().SetName("io.opentelemetry.log4j-appender-2.17")
		for range (records - r + 3) / 4 {
			loadRecord(rng, at, sl.LogRecords().AppendEmpty())
		}
	}
	return ld
}

func loadRecord(rng *rand.Rand, at time.Time, lr plog.LogRecord) {
	ts := pcommon.NewTimestampFromTime(at.Add(-time.Duration(rng.IntN(5e9))))
	lr.SetTimestamp(ts)
	lr.SetObservedTimestamp(ts + 1_000_000)
	var tid [16]byte
	var sid [8]byte
	for i := range tid {
		tid[i], sid[i%8] = byte(rng.Uint32()), byte(rng.Uint32())
	}
	lr.SetTraceID(tid)
	lr.SetSpanID(sid)
	lr.SetFlags(1)
	lr.SetSeverityNumber(plog.SeverityNumberInfo)
	lr.SetSeverityText("INFO")
	lr.Body().SetStr(fmt.Sprintf("order %d accepted for customer %x, %d items, payment authorised by gateway %s in %d ms; next step: reserve stock at warehouse %d",
		rng.IntN(1e9), rng.Uint64(), rng.IntN(20), "stripe-eu", rng.IntN(900), rng.IntN(50)))
	a := lr.Attributes()
	a.PutStr("http.request.method", "POST")
	a.PutStr("url.path", fmt.Sprintf("/api/v2/orders/%d/confirm", rng.IntN(1e9)))
	a.PutInt("http.response.status_code", 200)
	a.PutStr("thread.name", fmt.Sprintf("http-nio-8080-exec-%d", rng.IntN(200)))
	a.PutStr("code.namespace", "com.example.shop.checkout.OrderService")
	a.PutInt("code.lineno", int64(rng.IntN(2000)))
	a.PutStr("user.id", fmt.Sprintf("%016x", rng.Uint64()))
	a.PutStr("session.token", fmt.Sprintf("run-00000000-%012d", rng.IntN(1e9)))
}

// cpu is the process's time on the processor: on a shared machine it tells more than the clock on the wall.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCommit commits 50 segments of 4,096 records, as one cycle of a busy drain does, by Commit and by
// iceberg-go's own Append of the same rows in table form, segment by segment.
func BenchmarkCommit(b *testing.B) {
	const segments, rowsEach = 50, 4096
	segs := loadSegments(b, segments, rowsEach)
	run := func(name string, commit func(l *Lake, t *Table)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var used time.Duration
			var bytes, peak uint64
			for b.Loop() {
				b.StopTimer()
				l := lakeAt(b, b.TempDir(), hooks{})
				t := events(b, l)
				runtime.GC()
				before := cpu(b)
				b.StartTimer()
				commit(l, t)
				b.StopTimer()
				used += cpu(b) - before
				infos, err := l.Tables(context.Background())
				require.NoError(b, err)
				require.Equal(b, int64(segments*rowsEach), infos[0].Rows)
				bytes = uint64(infos[0].Bytes)
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapSys)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N*segments*rowsEach)/used.Seconds(), "rows/cpu-s")
			b.ReportMetric(float64(bytes)/float64(segments*rowsEach), "B/row")
			b.ReportMetric(float64(peak)/1e6, "heap-MB")
		})
	}
	run("lake", func(_ *Lake, t *Table) {
		out, err := t.Commit(context.Background(), segs)
		require.NoError(b, err)
		require.Equal(b, int64(segments*rowsEach), out.RowsWritten)
	})
	run("iceberg-go", func(l *Lake, _ *Table) {
		raw, err := l.open(context.Background(), table.Identifier{"siglake", "events"})
		require.NoError(b, err)
		rdr := &segmentReader{tb: b, segs: segs}
		_, err = raw.Append(context.Background(), rdr, nil)
		require.NoError(b, err)
	})
}

// segmentReader gives iceberg-go one segment at a time in table form.
type segmentReader struct {
	tb   testing.TB
	segs []Segment
	rec  arrow.RecordBatch
}

func (r *segmentReader) Retain()                        {}
func (r *segmentReader) Release()                       {}
func (r *segmentReader) Err() error                     { return nil }
func (r *segmentReader) Schema() *arrow.Schema          { return otelarrow.TableSchema(otelarrow.Logs) }
func (r *segmentReader) RecordBatch() arrow.RecordBatch { return r.rec }
func (r *segmentReader) Record() arrow.RecordBatch      { return r.rec }

var _ array.RecordReader = (*segmentReader)(nil)

func (r *segmentReader) Next() bool {
	if len(r.segs) == 0 {
		return false
	}
	seg := r.segs[0]
	r.segs = r.segs[1:]
	set, _, err := collect([]part{{seg: seg, to: seg.Rows}}, 200)
	require.NoError(r.tb, err)
	refs := make([]otelarrow.RowRef, len(set.keys))
	for i, k := range set.keys {
		refs[i] = otelarrow.RowRef{Source: k.source, Row: k.row}
	}
	r.rec, err = otelarrow.Gather(otelarrow.Logs, set.sources, refs, memory.DefaultAllocator)
	require.NoError(r.tb, err)
	return true
}
