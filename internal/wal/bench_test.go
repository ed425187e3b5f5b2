package wal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// BenchmarkAppend measures the whole path of an answer on the disk behind the temporary directory: clients in a
// closed loop, batches of rows of about 500 bytes, segments of the default size, sealing included.
func BenchmarkAppend(b *testing.B) {
	for _, mode := range []Mode{WaitFor, Auto} {
		for _, load := range []struct{ clients, rows int }{{8, 500}, {16, 100}, {64, 10}, {64, 1}, {1, 1}} {
			b.Run(fmt.Sprintf("%s/%dx%d", mode, load.clients, load.rows), func(b *testing.B) {
				benchmarkAppend(b, mode, load.clients, load.rows)
			})
		}
	}
}

func benchmarkAppend(b *testing.B, mode Mode, clients, rows int) {
	b.Helper()
	disk := &counting{FS: vfs.OS()}
	dir := b.TempDir()
	opt := Options{FS: disk, Dir: dir, MaxBytes: 1 << 40, MinFree: 1}
	l := open(b, opt)
	r := Request{
		Tenant: "t", Index: "events", Schema: testSchemas[0], Body: benchBody(b, rows), Rows: rows,
		MinTime: 1, MaxTime: 2, Mode: mode,
	}
	_, err := l.Append(b.Context(), r) // makes the directories
	require.NoError(b, err)
	took := make([][]time.Duration, clients)
	stop := keepSmall(dir)
	disk.syncs.Store(0)
	b.SetBytes(int64(len(r.Body)))
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	each(clients, func(i int) {
		n := b.N / clients
		if i < b.N%clients {
			n++
		}
		mine := make([]time.Duration, 0, n)
		r := r
		r.Body = slices.Clone(r.Body) // the log writes into it
		for range n {
			from := time.Now()
			if _, err := l.Append(b.Context(), r); err != nil {
				b.Error(err)
				return
			}
			mine = append(mine, time.Since(from))
		}
		took[i] = mine
	})
	seconds := time.Since(start).Seconds()
	b.StopTimer()
	stop()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/seconds, "appends/s")
	b.ReportMetric(float64(b.N*rows)/seconds, "rows/s")
	b.ReportMetric(float64(disk.syncs.Load())/float64(b.N), "fsyncs/append")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
	closeLog(b, l)
}

// benchBody is one batch of rows of about 500 bytes.
func benchBody(b *testing.B, rows int) []byte {
	b.Helper()
	rb := array.NewRecordBuilder(memory.DefaultAllocator, testSchemas[0])
	defer rb.Release()
	for i := range rows {
		rb.Field(0).(*array.Int64Builder).Append(int64(i))
		rb.Field(1).(*array.StringBuilder).Append(wide[:488])
	}
	rec := rb.NewRecordBatch()
	defer rec.Release()
	e, err := frame.NewEncoder(testSchemas[0])
	require.NoError(b, err)
	msg, err := e.Append(nil, rec)
	require.NoError(b, err)
	return msg
}

// keepSmall deletes sealed segments as a drain would, so that a long run does not fill the disk.
func keepSmall(dir string) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
			sealed, err := filepath.Glob(filepath.Join(dir, "*", "*", "sealed", "*"))
			if err != nil {
				return
			}
			for _, name := range sealed {
				_ = os.Remove(name)
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// counting counts syncs.
type counting struct {
	vfs.FS
	syncs atomic.Int64
}

func (c *counting) Create(name string) (vfs.File, error) {
	f, err := c.FS.Create(name)
	return countingFile{f, c}, err
}

func (c *counting) SyncDir(dir string) error {
	c.syncs.Add(1)
	return c.FS.SyncDir(dir)
}

type countingFile struct {
	vfs.File
	c *counting
}

func (f countingFile) Sync() error {
	f.c.syncs.Add(1)
	return f.File.Sync()
}
