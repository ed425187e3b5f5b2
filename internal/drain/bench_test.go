package drain

import (
	"fmt"
	"path/filepath"
	"runtime"
	rtmetrics "runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// BenchmarkOnce drains 64 segments of 4,096 log records of about 500 bytes, over one and over four lanes, and
// reports rows/s and the highest heap (live and garbage not yet freed) in multiples of MaxBytesInFlight: the
// measure behind memoryFactor.
func BenchmarkOnce(b *testing.B) {
	for _, lanes := range []int{1, 4} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			const segments, budget = 128, 64 << 20
			data := telemetry(b, 4096)
			rows := 0
			peak := 0.0
			for b.Loop() {
				b.StopTimer()
				opt := benchRoot(b, data, lanes, segments)
				opt.MaxBytesInFlight = budget
				runtime.GC()
				base := heap()
				stop, high := watchHeap()
				b.StartTimer()
				r, err := Once(b.Context(), opt)
				b.StopTimer()
				close(stop)
				peak = max(peak, float64(<-high-base)/budget)
				require.NoError(b, err)
				require.Empty(b, r.Failures)
				rows += int(r.Rows)
				require.NoError(b, opt.Lake.Close())
				b.StartTimer()
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(peak, "budgets")
			b.ReportMetric(float64(segments*len(data))/1e6, "MB")
		})
	}
}

func benchRoot(b *testing.B, data []byte, lanes, segments int) Options {
	b.Helper()
	dir := b.TempDir()
	root, err := segment.Create(vfs.OS(), filepath.Join(dir, "wal"))
	require.NoError(b, err)
	namer := segment.NewNamer([6]byte{1})
	for i := range segments {
		lane, err := root.Lane("default", fmt.Sprint("lane", i%lanes))
		require.NoError(b, err)
		require.NoError(b, lane.Prepare())
		f, err := vfs.OS().Create(lane.Path(segment.Sealed, namer.Next(time.Now()).FileName()))
		require.NoError(b, err)
		_, err = f.Writev([][]byte{data})
		require.NoError(b, err)
		require.NoError(b, f.Close())
	}
	l, err := lake.Open(b.Context(), lake.Options{
		Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse"),
	})
	require.NoError(b, err)
	return Options{FS: vfs.OS(), WAL: root.Dir(), Lake: l}
}

// telemetry is a segment of requests of 100 records.
func telemetry(b *testing.B, rows int) []byte {
	b.Helper()
	schema := otelarrow.WALSchema(otelarrow.Logs)
	body, err := frame.EncodeSchema(schema)
	require.NoError(b, err)
	enc, err := frame.NewEncoder(schema)
	require.NoError(b, err)
	oe := otelarrow.NewEncoder()
	for from := 0; from < rows; from += 100 {
		ld := plog.NewLogs()
		rl := ld.ResourceLogs().AppendEmpty()
		rl.Resource().Attributes().PutStr("service.name", fmt.Sprint("service-", from/100%10))
		logs := rl.ScopeLogs().AppendEmpty().LogRecords()
		for i := from; i < min(rows, from+100); i++ {
			r := logs.AppendEmpty()
			r.SetTimestamp(pcommon.Timestamp(1_770_000_000_000_000_000 + 1_000_003*i))
			r.SetSeverityText("INFO")
			r.Body().SetStr(fmt.Sprintf("request %d took %d ms %s", i, i*7919%1000, strings.Repeat("lorem ipsum ", 25)))
			r.Attributes().PutStr("http.route", fmt.Sprint("/api/v1/items/", i%97))
			r.Attributes().PutInt("http.status_code", int64(200+i%5))
			r.Attributes().PutStr("user.id", fmt.Sprintf("%016x", i*2654435761))
		}
		batch, err := oe.EncodeLogs(batchTime(), ld)
		require.NoError(b, err)
		body, err = enc.Append(body, batch.Record)
		require.NoError(b, err)
		batch.Record.Release()
	}
	return sealed(append(body, frame.EOS()...), spec{}, 0, 0)
}

func heap() uint64 {
	s := []rtmetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	rtmetrics.Read(s)
	return s[0].Value.Uint64()
}

// watchHeap samples the heap until stop is closed, then sends the highest value.
func watchHeap() (stop chan struct{}, high chan uint64) {
	stop, high = make(chan struct{}), make(chan uint64, 1)
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		top := heap()
		for {
			select {
			case <-stop:
				high <- top
				return
			case <-tick.C:
				top = max(top, heap())
			}
		}
	}()
	return stop, high
}
