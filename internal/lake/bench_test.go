package lake

import (
	"cmp"
	"context"
	"math/rand/v2"
	"runtime"
	rtmetrics "runtime/metrics"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/otelarrow/loadtest"
)

// loadSegments are what a busy exporter seals: requests of 512 rows that arrive nearly in order.
func loadSegments(tb testing.TB, s otelarrow.Signal, segments, rowsEach int) []Segment {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]Segment, segments)
	for i := range out {
		out[i] = Segment{ID: testID(tb, time.Now(), uint64(i)), Rows: int64(rowsEach)}
		for done := 0; done < rowsEach; done += 512 {
			at := day0.Add(time.Duration(i*rowsEach+done) * 50 * time.Microsecond)
			b, err := encodeLoad(rng, s, at, min(512, rowsEach-done))
			require.NoError(tb, err)
			out[i].Batches = append(out[i].Batches, b.Record)
		}
	}
	return out
}

func encodeLoad(rng *rand.Rand, s otelarrow.Signal, at time.Time, rows int) (otelarrow.Batch, error) {
	switch s {
	case otelarrow.Traces:
		return otelarrow.EncodeTraces(loadtest.Traces(rng, at, rows), at, memory.DefaultAllocator)
	case otelarrow.Metrics:
		return otelarrow.EncodeMetrics(loadtest.Metrics(rng, at, rows), at, memory.DefaultAllocator)
	default:
		return otelarrow.EncodeLogs(loadtest.Logs(rng, at, rows), at, memory.DefaultAllocator)
	}
}

// cpu is the process's time on the processor: on a shared machine it tells more than the clock on the wall.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap is what the heap holds, garbage that is not freed yet included.
func heap() uint64 {
	s := []rtmetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	rtmetrics.Read(s)
	return s[0].Value.Uint64()
}

// highWater runs f and returns by how much the heap grew at most.
func highWater(f func()) uint64 {
	runtime.GC()
	base := heap()
	top := base
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				top = max(top, heap())
			}
		}
	})
	f()
	close(stop)
	wg.Wait()
	return top - base
}

// contender is one way to bring segments into a table.
type contender struct {
	name   string
	props  iceberg.Properties // of the table, over those of a new one
	commit func(b *testing.B, l *Lake, t *Table, segs []Segment)

	rates, peaks []float64
	size         int64
}

func contenders() []*contender {
	return []*contender{
		{name: "lake", commit: commitByLake},
		// The library's own default is level 3.
		{name: "iceberg", props: iceberg.Properties{table.ParquetCompressionLevelKey: "3"}, commit: commitByIceberg},
		{name: "iceberg-zstd1", props: iceberg.Properties{table.ParquetCompressionLevelKey: "1"}, commit: commitByIceberg},
	}
}

func commitByLake(b *testing.B, _ *Lake, t *Table, segs []Segment) {
	b.Helper()
	_, err := t.Commit(b.Context(), segs)
	require.NoError(b, err)
}

func commitByIceberg(b *testing.B, l *Lake, t *Table, segs []Segment) {
	b.Helper()
	raw, err := l.open(b.Context(), t.id)
	require.NoError(b, err)
	_, err = raw.Append(b.Context(), &segmentReader{tb: b, signal: t.signal, segs: segs}, nil)
	require.NoError(b, err)
}

// run commits the segments once and notes what it took.
func (c *contender) run(b *testing.B, s otelarrow.Signal, segs []Segment) {
	b.Helper()
	l := lakeAt(b, b.TempDir(), hooks{})
	t, _, err := l.Ensure(b.Context(), "default", "load", s)
	require.NoError(b, err)
	if c.props != nil {
		raw, err := l.open(b.Context(), t.id)
		require.NoError(b, err)
		tx := raw.NewTransaction()
		require.NoError(b, tx.SetProperties(c.props))
		_, err = tx.Commit(b.Context())
		require.NoError(b, err)
	}
	var rows int64
	for _, seg := range segs {
		rows += seg.Rows
	}
	before := cpu(b)
	peak := highWater(func() {
		before = cpu(b)
		c.commit(b, l, t, segs)
		c.rates = append(c.rates, float64(rows)/(cpu(b)-before).Seconds())
	})
	c.peaks = append(c.peaks, float64(peak)/1e6)
	infos, err := l.Tables(context.Background())
	require.NoError(b, err)
	require.Equal(b, rows, infos[0].Rows)
	c.size = infos[0].Bytes / rows
}

func median[T cmp.Ordered](v []T) T {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// BenchmarkCommit commits 50 segments of 4,096 rows, as one cycle of a busy drain does, by Commit and by iceberg-go's
// own Append of the same rows in table form, segment by segment, in turn. It reports medians, and the ratio of rows
// per CPU second: -benchtime=7x takes seven turns.
func BenchmarkCommit(b *testing.B) {
	const segments, rowsEach = 50, 4096
	for _, s := range []otelarrow.Signal{otelarrow.Logs, otelarrow.Traces, otelarrow.Metrics} {
		b.Run(s.String(), func(b *testing.B) {
			segs := loadSegments(b, s, segments, rowsEach)
			all := contenders()
			for b.Loop() {
				for _, c := range all {
					c.run(b, s, segs)
				}
			}
			b.ReportMetric(0, "ns/op") // of all together: says nothing
			ours := median(all[0].rates)
			for _, c := range all {
				b.ReportMetric(median(c.rates)/1e3, c.name+"-krows/cpu-s")
				b.ReportMetric(float64(c.size), c.name+"-B/row")
				b.ReportMetric(median(c.peaks), c.name+"-heap-MB")
				if c != all[0] {
					b.ReportMetric(ours/median(c.rates), "x-"+c.name)
				}
			}
		})
	}
}

// segmentReader gives iceberg-go one segment at a time in table form.
type segmentReader struct {
	tb     testing.TB
	signal otelarrow.Signal
	segs   []Segment
	rec    arrow.RecordBatch
}

func (r *segmentReader) Retain()                        {}
func (r *segmentReader) Release()                       {}
func (r *segmentReader) Err() error                     { return nil }
func (r *segmentReader) Schema() *arrow.Schema          { return otelarrow.TableSchema(r.signal) }
func (r *segmentReader) RecordBatch() arrow.RecordBatch { return r.rec }
func (r *segmentReader) Record() arrow.RecordBatch      { return r.rec }

var _ array.RecordReader = (*segmentReader)(nil)

func (r *segmentReader) Next() bool {
	if len(r.segs) == 0 {
		return false
	}
	seg := r.segs[0]
	r.segs = r.segs[1:]
	var sources []otelarrow.Source
	var refs []otelarrow.RowRef
	first := int64(0)
	for i, rec := range seg.Batches {
		sources = append(sources, otelarrow.Source{SegmentID: seg.ID, FirstRow: first, Record: rec})
		for row := range rec.NumRows() {
			refs = append(refs, otelarrow.RowRef{Source: int32(i), Row: int32(row)})
		}
		first += rec.NumRows()
	}
	var err error
	r.rec, err = otelarrow.Gather(r.signal, sources, refs, memory.DefaultAllocator)
	require.NoError(r.tb, err)
	return true
}
