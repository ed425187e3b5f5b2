package otelarrow_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/otelarrow/loadtest"
)

// loadEncoder encodes the same request of a load test each time it is called.
func loadEncoder(s otelarrow.Signal, rows int) func() (otelarrow.Batch, error) {
	rng := rand.New(rand.NewPCG(1, uint64(rows)))
	enc := otelarrow.NewEncoder()
	switch s {
	case otelarrow.Traces:
		td := loadtest.Traces(rng, arrival, rows)
		return func() (otelarrow.Batch, error) { return enc.EncodeTraces(arrival, td) }
	case otelarrow.Metrics:
		md := loadtest.Metrics(rng, arrival, rows)
		return func() (otelarrow.Batch, error) { return enc.EncodeMetrics(arrival, md) }
	default:
		ld := loadtest.Logs(rng, arrival, rows)
		return func() (otelarrow.Batch, error) { return enc.EncodeLogs(arrival, ld) }
	}
}

// walLayout is a way to lay out what rows share. It makes it of the run-end-encoded columns; what that takes stands
// for what an encoder would do instead, and is the least of it: runs are found already.
type walLayout struct {
	name   string
	shared func(col *array.RunEndEncoded) (arrow.Array, error)
}

var walLayouts = []walLayout{
	{"runs", func(col *array.RunEndEncoded) (arrow.Array, error) {
		col.Retain()
		return col, nil
	}},
	{"plain", func(col *array.RunEndEncoded) (arrow.Array, error) {
		at := runOfRows(col)
		defer at.Release()
		return compute.TakeArray(context.Background(), col.Values(), at)
	}},
	{"dictionary", func(col *array.RunEndEncoded) (arrow.Array, error) {
		at := runOfRows(col)
		defer at.Release()
		dt := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: col.Values().DataType()}
		return array.NewDictionaryArray(dt, at, col.Values()), nil
	}},
}

// runOfRows is the run that each row is in.
func runOfRows(col *array.RunEndEncoded) arrow.Array {
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(col.Len())
	ends, _ := col.RunEndsArr().(*array.Int32)
	run := 0
	for row := range col.Len() {
		if int32(row) >= ends.Value(run) {
			run++
		}
		b.UnsafeAppend(int32(run))
	}
	return b.NewArray()
}

// apply lays rec out.
func (l walLayout) apply(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	fields := rec.Schema().Fields()
	cols := make([]arrow.Array, len(fields))
	for i, col := range rec.Columns() {
		shared, ok := col.(*array.RunEndEncoded)
		if !ok {
			col.Retain()
			cols[i] = col
			continue
		}
		var err error
		if cols[i], err = l.shared(shared); err != nil {
			return nil, err
		}
		fields[i].Type = cols[i].DataType()
	}
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, rec.NumRows()), nil
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// walSegment is a stream of one layout and codec that batches are appended to.
type walSegment struct {
	name   string
	layout walLayout
	opts   []ipc.Option
	w      *ipc.Writer
	bytes  counter
	head   counter // of bytes: the schema
	took   time.Duration
}

// append lays out and writes a batch.
func (s *walSegment) append(tb testing.TB, rec arrow.RecordBatch) {
	tb.Helper()
	before := cpu(tb)
	out, err := s.layout.apply(rec)
	require.NoError(tb, err)
	if s.w == nil {
		empty := out.NewSlice(0, 0)
		s.w = ipc.NewWriter(&s.bytes, append(s.opts, ipc.WithSchema(out.Schema()))...)
		require.NoError(tb, s.w.Write(empty))
		empty.Release()
		s.head = s.bytes
		before = cpu(tb)
	}
	require.NoError(tb, s.w.Write(out))
	out.Release()
	s.took += cpu(tb) - before
}

// BenchmarkLayout writes requests of 500 rows with resource, scope and metric run-end encoded, as plain columns and as
// dictionaries, and with the body of each message plain, LZ4 and ZSTD: all nine in turn. It reports bytes and CPU time
// a row after the encoder (layout and IPC by arrow-go's writer), and the encoder's own time (encode-ns/row).
func BenchmarkLayout(b *testing.B) {
	const rowsEach, perTurn = 500, 20
	codecs := []struct {
		name string
		opts []ipc.Option
	}{{"", nil}, {"-lz4", []ipc.Option{ipc.WithLZ4()}}, {"-zstd", []ipc.Option{ipc.WithZstd()}}}
	for _, s := range signals {
		b.Run(s.String(), func(b *testing.B) {
			encode := loadEncoder(s, rowsEach)
			var segments []*walSegment
			for _, l := range walLayouts {
				for _, c := range codecs {
					segments = append(segments, &walSegment{name: l.name + c.name, layout: l, opts: c.opts})
				}
			}
			var encoding time.Duration
			rows := 0
			for b.Loop() {
				before := cpu(b)
				for range perTurn {
					batch, err := encode()
					require.NoError(b, err)
					batch.Record.Release()
				}
				encoding += cpu(b) - before
				batch, err := encode()
				require.NoError(b, err)
				for _, seg := range segments {
					for range perTurn {
						seg.append(b, batch.Record)
					}
				}
				batch.Record.Release()
				rows += perTurn * rowsEach
			}
			b.ReportMetric(0, "ns/op") // of all nine: says nothing
			b.ReportMetric(float64(encoding.Nanoseconds())/float64(rows), "encode-ns/row")
			for _, seg := range segments {
				b.ReportMetric(float64(seg.bytes-seg.head)/float64(rows), seg.name+"-B/row")
				b.ReportMetric(float64(seg.took.Nanoseconds())/float64(rows), seg.name+"-ns/row")
			}
		})
	}
}
