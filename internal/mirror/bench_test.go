package mirror_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// cpuTime is the processor time of the whole process so far, in seconds.
func cpuTime(tb testing.TB) float64 {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// discarding is an S3 server that reads bodies and keeps of them what a HEAD tells, and the marker.
type discarding struct {
	mu      sync.Mutex
	objects map[string]http.Header
	marker  []byte
}

func (d *discarding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch known, ok := d.objects[r.URL.Path]; {
	case r.Method == http.MethodPut:
		d.mu.Unlock()
		var body bytes.Buffer
		var n int64
		if r.ContentLength < 4096 {
			n, _ = body.ReadFrom(r.Body) // what is cut off is not confirmed
		} else {
			n, _ = io.Copy(io.Discard, r.Body)
		}
		d.mu.Lock()
		if filepath.Ext(r.URL.Path) == ".json" {
			d.marker = body.Bytes()
		}
		w.Header().Set("X-Amz-Checksum-Crc32", r.Header.Get("X-Amz-Checksum-Crc32"))
		d.objects[r.URL.Path] = http.Header{
			"X-Amz-Checksum-Crc32": {r.Header.Get("X-Amz-Checksum-Crc32")}, "Content-Length": {strconv.FormatInt(n, 10)},
		}
	case r.URL.Query().Has("list-type"):
		_, _ = io.WriteString(w, "<ListBucketResult/>")
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	case r.Method == http.MethodHead:
		for name, values := range known {
			w.Header().Set(name, values[0])
		}
	default:
		_, _ = w.Write(d.marker)
	}
}

func benchStore(b *testing.B, kind string) objstore.Store {
	b.Helper()
	url, opt := "file://"+b.TempDir(), objstore.Options{}
	if kind == "s3" {
		server := httptest.NewServer(&discarding{objects: map[string]http.Header{}})
		b.Cleanup(server.Close)
		url, opt.S3 = "s3://bucket/dir", objstore.S3{Endpoint: server.URL, AccessKeyID: "id", SecretAccessKey: "key"}
	}
	s, err := objstore.Open(b.Context(), url, opt)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

// BenchmarkUpload seals segments as fast as the disk lets, and measures until the copy of each is confirmed: to an S3 server that
// discards, in this process, and to a directory. The processor time of the server and of the log are in the figures; "none" is
// the log alone.
func BenchmarkUpload(b *testing.B) {
	for _, size := range []int{256 << 10, 2 << 20} {
		for _, kind := range []string{"none", "s3", "file"} {
			b.Run(fmt.Sprintf("%s/%dKiB", kind, size>>10), func(b *testing.B) { benchmarkUpload(b, kind, size) })
		}
	}
}

func benchmarkUpload(b *testing.B, kind string, size int) {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "wal")
	opt := wal.Options{Dir: dir, MaxAge: time.Hour, MaxBytes: 1 << 40, MinFree: 1}
	var m *mirror.Mirror
	if kind != "none" {
		var err error
		m, err = mirror.New(mirror.Options{Dir: dir, Store: benchStore(b, kind)})
		require.NoError(b, err)
		opt.Mirror = m
		ctx, cancel := context.WithCancel(context.Background())
		var run sync.WaitGroup
		run.Go(func() { m.Run(ctx) })
		b.Cleanup(func() { cancel(); run.Wait() })
	}
	log, err := wal.Open(b.Context(), opt)
	require.NoError(b, err)
	ids := make([]int64, size/8)
	body := batch(b, ids...)
	b.SetBytes(int64(size))
	b.ResetTimer()
	began := cpuTime(b)
	for range b.N {
		_, err := log.Append(b.Context(), wal.Request{
			Tenant: "t", Index: "events", Schema: rowSchema, Body: bytes.Clone(body), Rows: len(ids), MinTime: 1, MaxTime: 1, Mode: wal.WaitFor,
		})
		require.NoError(b, err)
		require.NoError(b, log.Seal(b.Context(), "t", "events"))
	}
	if m != nil {
		require.Zero(b, m.Flush(b.Context()))
	}
	b.ReportMetric((cpuTime(b)-began)/float64(b.N*size)*(1<<30), "CPU-s/GiB")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "segments/s")
	b.StopTimer()
	require.NoError(b, log.Close(context.Background()))
}

// BenchmarkRestore rebuilds a log from a directory of segments: decoded, written, synced.
func BenchmarkRestore(b *testing.B) {
	for _, size := range []int{256 << 10, 2 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) { benchmarkRestore(b, size) })
	}
}

func benchmarkRestore(b *testing.B, size int) {
	b.Helper()
	const segments = 64
	dir := filepath.Join(b.TempDir(), "wal")
	store := benchStore(b, "file")
	m, err := mirror.New(mirror.Options{Dir: dir, Store: store})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { m.Run(ctx) })
	log, err := wal.Open(b.Context(), wal.Options{Dir: dir, MaxAge: time.Hour, MaxBytes: 1 << 40, MinFree: 1, Mirror: m})
	require.NoError(b, err)
	ids := make([]int64, size/8)
	for range segments {
		_, err := log.Append(b.Context(), wal.Request{
			Tenant: "t", Index: "events", Schema: rowSchema, Body: batch(b, ids...), Rows: len(ids), MinTime: 1, MaxTime: 1, Mode: wal.WaitFor,
		})
		require.NoError(b, err)
		require.NoError(b, log.Seal(b.Context(), "t", "events"))
	}
	require.NoError(b, log.Close(context.Background()))
	require.Zero(b, m.Flush(b.Context()))
	cancel()
	run.Wait()
	b.SetBytes(int64(segments * size))
	b.ResetTimer()
	began := cpuTime(b)
	for i := range b.N {
		report, err := mirror.Restore(b.Context(), mirror.RestoreOptions{Dir: filepath.Join(b.TempDir(), strconv.Itoa(i)), Store: store})
		require.NoError(b, err)
		require.Equal(b, segments, report.Lanes[0].Restored)
	}
	b.ReportMetric((cpuTime(b)-began)/float64(b.N*segments*size)*(1<<30), "CPU-s/GiB")
}
