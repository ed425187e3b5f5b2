package otelarrow_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

var arrival = time.Unix(1_790_000_000, 123_456_789)

// realLogs is a request like those of a load test: records of about 510 bytes of
// protobuf, 8 attributes of which 2 are integers, ids, 4 resources.
func realLogs(tb testing.TB, records int) plog.Logs {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(records)))
	ld := plog.NewLogs()
	for r := range 4 {
		n := records / 4
		if r < records%4 {
			n++
		}
		if n == 0 {
			continue
		}
		rl := ld.ResourceLogs().AppendEmpty()
		res := rl.Resource().Attributes()
		res.PutStr("service.name", fmt.Sprintf("checkout-%d", r))
		res.PutStr("service.version", "1.27.3")
		res.PutStr("k8s.namespace.name", "shop")
		res.PutStr("k8s.pod.name", fmt.Sprintf("checkout-%d-7d4b9c6f5b-x2x%dz", r, r))
		res.PutStr("host.name", fmt.Sprintf("ip-10-0-0-%d.eu-central-1.compute.internal", r))
		sl := rl.ScopeLogs().AppendEmpty()
		sl.Scope().SetName("io.opentelemetry.log4j-appender-2.17")
		for range n {
			realRecord(rng, sl.LogRecords().AppendEmpty())
		}
	}
	return ld
}

func realRecord(rng *rand.Rand, lr plog.LogRecord) {
	at := pcommon.NewTimestampFromTime(arrival.Add(-time.Duration(rng.IntN(5e9))))
	lr.SetTimestamp(at)
	lr.SetObservedTimestamp(at + 1_000_000)
	var tid [16]byte
	var sid [8]byte
	for i := range tid {
		tid[i] = byte(rng.Uint32())
		sid[i%8] = byte(rng.Uint32())
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

// cpu is the process's user and system time: benchmarks report records per CPU
// second, which other work on the machine hardly moves.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportRate adds what b's loop achieved, garbage collection included.
func reportRate(b *testing.B, before time.Duration, rows int) {
	b.Helper()
	runtime.GC()
	took := cpu(b) - before
	b.ReportMetric(float64(b.N*rows)/took.Seconds()/1e6, "Mrows/cpu-s")
}

func BenchmarkEncodeLogs(b *testing.B) {
	for _, n := range []int{500, 100, 10, 1} {
		ld := realLogs(b, n)
		size := (&plog.ProtoMarshaler{}).LogsSize(ld)
		run := func(name string, encode func() (otelarrow.Batch, error)) {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				before := cpu(b)
				for b.Loop() {
					batch, err := encode()
					if err != nil {
						b.Fatal(err)
					}
					batch.Record.Release()
				}
				reportRate(b, before, n)
			})
		}
		enc := otelarrow.NewEncoder()
		run("encoder", func() (otelarrow.Batch, error) { return enc.EncodeLogs(arrival, ld) })
		run("mem", func() (otelarrow.Batch, error) { return otelarrow.EncodeLogs(ld, arrival, memory.DefaultAllocator) })
	}
}

// benchSources are WAL batches of so many records each, as a segment holds them.
func benchSources(tb testing.TB, batches, records int) (srcs []otelarrow.Source, rows []otelarrow.RowRef) {
	tb.Helper()
	for i := range batches {
		b, err := otelarrow.EncodeLogs(realLogs(tb, records), arrival, memory.DefaultAllocator)
		require.NoError(tb, err)
		srcs = append(srcs, otelarrow.Source{SegmentID: "0192f0c1-2b3c-7d4e-8f90-a1b2c3d4e5f6-0a1b2c3d4e5f-17", FirstRow: int64(i * records), Record: b.Record})
		for r := range b.Rows {
			rows = append(rows, otelarrow.RowRef{Source: int32(i), Row: int32(r)})
		}
	}
	return srcs, rows
}

// BenchmarkGather takes rows as they are after sorting by time: requests of many
// senders overlap a little ("near"), or replayed data is mixed throughout ("far").
func BenchmarkGather(b *testing.B) {
	for _, shape := range []struct {
		name                    string
		batches, records, apart int
	}{{"16x500/near", 16, 500, 64}, {"16x500/far", 16, 500, 8000}, {"800x10/near", 800, 10, 64}, {"800x10/far", 800, 10, 8000}} {
		srcs, rows := benchSources(b, shape.batches, shape.records)
		rng := rand.New(rand.NewPCG(2, 3))
		for lo := 0; lo < len(rows); lo += shape.apart {
			part := rows[lo:min(lo+shape.apart, len(rows))]
			rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
		}
		b.Run(shape.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				rec, err := otelarrow.Gather(otelarrow.Logs, srcs, rows, memory.DefaultAllocator)
				if err != nil {
					b.Fatal(err)
				}
				rec.Release()
			}
			reportRate(b, before, len(rows))
		})
	}
}

func BenchmarkRowBytes(b *testing.B) {
	srcs, _ := benchSources(b, 1, 500)
	before := cpu(b)
	for b.Loop() {
		if _, err := otelarrow.RowBytes(srcs[0].Record); err != nil {
			b.Fatal(err)
		}
	}
	reportRate(b, before, 500)
}
