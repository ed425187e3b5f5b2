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
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/otelarrow/loadtest"
)

var arrival = time.Unix(1_790_000_000, 123_456_789)

// realLogs is a request like those of a load test.
func realLogs(tb testing.TB, records int) plog.Logs {
	tb.Helper()
	return loadtest.Logs(rand.New(rand.NewPCG(1, uint64(records))), arrival, records)
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

// BenchmarkEncode turns requests of the three signals into WAL batches, by an Encoder that keeps its memory and by
// one-off calls.
func BenchmarkEncode(b *testing.B) {
	for _, s := range signals {
		for _, n := range []int{500, 100, 10, 1} {
			run := func(name string, encode func() (otelarrow.Batch, error)) {
				b.Run(fmt.Sprintf("%s/%d/%s", s, n, name), func(b *testing.B) {
					b.ReportAllocs()
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
			run("encoder", loadEncoder(s, n))
			if s == otelarrow.Logs {
				ld := realLogs(b, n)
				run("mem", func() (otelarrow.Batch, error) { return otelarrow.EncodeLogs(ld, arrival, memory.DefaultAllocator) })
			}
		}
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
