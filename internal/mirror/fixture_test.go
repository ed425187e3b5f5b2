package mirror_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rootDir = "/wal"

var rowSchema = arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)

// batch encodes rows with the given ids.
func batch(t testing.TB, ids ...int64) []byte {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, rowSchema)
	defer b.Release()
	for _, id := range ids {
		b.Field(0).(*array.Int64Builder).Append(id)
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	e, err := frame.NewEncoder(rowSchema)
	require.NoError(t, err)
	msg, err := e.Append(nil, rec)
	require.NoError(t, err)
	return msg
}

// rows are the ids in an object or file.
func rows(t testing.TB, body []byte) []int64 {
	t.Helper()
	out, err := decoded(body)
	require.NoError(t, err)
	return out
}

// rowsOf is rows of what may be none.
func rowsOf(body []byte) []int64 {
	out, _ := decoded(body)
	return out
}

func decoded(body []byte) (out []int64, err error) {
	seg, err := frame.Decode(bytes.NewReader(body), int64(len(body)), frame.DecodeOptions{})
	if err != nil {
		return nil, err
	}
	defer seg.Release()
	for _, b := range seg.Batches {
		out = append(out, b.Column(0).(*array.Int64).Int64Values()...)
	}
	return out, nil
}

// rig is a log, its mirror and the store, all in memory. Use it inside synctest.Test.
type rig struct {
	t     testing.TB
	disk  *simfs.FS
	store *storetest.Store
	logs  *observer.ObservedLogs
	read  *metric.ManualReader

	m      *mirror.Mirror
	log    *wal.Log
	cancel context.CancelFunc
	run    sync.WaitGroup
	opt    mirror.Options
	next   int64
	status []error
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, disk: simfs.New(nil), store: &storetest.Store{}}
	var core zapcore.Core
	core, r.logs = observer.New(zapcore.InfoLevel)
	r.read = metric.NewManualReader()
	meter := metric.NewMeterProvider(metric.WithReader(r.read)).Meter("test")
	r.opt = mirror.Options{
		FS: r.disk, Dir: rootDir, Store: r.store, Logger: zap.New(core), Meter: meter,
		Status: func(err error) { r.status = append(r.status, err) },
	}
	return r
}

// start opens the log with its mirror, as one process life.
func (r *rig) start() *rig {
	r.t.Helper()
	var err error
	r.m, err = mirror.New(r.opt)
	require.NoError(r.t, err)
	r.log, err = wal.Open(r.t.Context(), wal.Options{
		FS: r.disk, Dir: rootDir, MaxAge: time.Hour, MaxBytes: 1 << 40, MinFree: 1, Mirror: r.m,
	})
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	r.cancel = cancel
	r.run.Go(func() { r.m.Run(ctx) })
	return r
}

// stop ends that life: the log seals, the mirror has a while.
func (r *rig) stop(flush time.Duration) (left int) {
	r.t.Helper()
	require.NoError(r.t, r.log.Close(context.WithoutCancel(r.t.Context())))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), flush)
	defer cancel()
	left = r.m.Flush(ctx)
	r.cancel()
	r.run.Wait()
	return left
}

func (r *rig) append(n int) wal.Receipt {
	r.t.Helper()
	var ids []int64
	for range n {
		r.next++
		ids = append(ids, r.next)
	}
	receipt, err := r.log.Append(r.t.Context(), wal.Request{
		Tenant: "t", Index: "events", Schema: rowSchema, Body: batch(r.t, ids...), Rows: n,
		MinTime: ids[0], MaxTime: ids[n-1], Mode: wal.WaitFor,
	})
	require.NoError(r.t, err)
	return receipt
}

// sealed appends n segments of two rows each and seals each.
func (r *rig) sealed(n int) (ids []segment.ID) {
	r.t.Helper()
	for range n {
		ids = append(ids, r.append(2).Segment)
		require.NoError(r.t, r.log.Seal(r.t.Context(), "t", "events"))
	}
	return ids
}

func (r *rig) lane() segment.Lane {
	r.t.Helper()
	return laneOf(r.t, r.disk)
}

func laneOf(t testing.TB, disk vfs.FS) segment.Lane {
	t.Helper()
	root, err := segment.Open(disk, rootDir)
	require.NoError(t, err)
	l, err := root.Lane("t", "events")
	require.NoError(t, err)
	return l
}

func key(id segment.ID) string { return "t/events/" + id.FileName() }

func activeKey(id segment.ID) string { return "_active/t/events/" + id.PartialName() }

// pins are the names in mirror-pending/.
func (r *rig) pins() (names []string) {
	r.t.Helper()
	entries, _, err := r.lane().List(segment.MirrorPending)
	require.NoError(r.t, err)
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// file is the content of a segment under whatever name.
func (r *rig) file(id segment.ID) []byte {
	r.t.Helper()
	f, err := r.lane().OpenAny(id)
	require.NoError(r.t, err)
	return content(r.t, f)
}

func content(t testing.TB, f vfs.File) []byte {
	t.Helper()
	info, err := f.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return b
}

// counter reads a counter of the mirror; attrs are label values that must all match.
func (r *rig) counter(name string, attrs ...string) int64 {
	r.t.Helper()
	return r.sum("siglake_wal_mirror_"+name, attrs...)
}

func (r *rig) sum(name string, attrs ...string) int64 {
	r.t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(r.t, r.read.Collect(r.t.Context(), &rm))
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok || m.Name != name {
				continue
			}
			var total int64
			for _, dp := range sum.DataPoints {
				text := fmt.Sprint(dp.Attributes.ToSlice())
				match := true
				for _, a := range attrs {
					match = match && strings.Contains(text, a)
				}
				if match {
					total += dp.Value
				}
			}
			return total
		}
	}
	require.Failf(r.t, "no such counter", name)
	return 0
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

func dir(name string) string { return name[:strings.LastIndexByte(name, '/')] }

func seed(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 7)) }
