package otelarrow_test

import (
	"maps"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// A batch owns its memory until it is released, whatever the Encoder does meanwhile.
func TestEncoder_batches_do_not_share_memory(t *testing.T) {
	t.Parallel()
	enc := otelarrow.NewEncoder()
	g := newGen(t, true)
	var wg sync.WaitGroup
	for range 4 {
		requests := make([]plog.Logs, 8)
		for i := range requests {
			requests[i] = g.logs()
		}
		wg.Go(func() {
			for range 20 {
				var held []otelarrow.Batch
				for _, ld := range requests {
					b, err := enc.EncodeLogs(arrival, ld)
					if err != nil {
						t.Error(err)
						return
					}
					held = append(held, b)
				}
				for i, b := range held {
					want, err := otelarrow.EncodeLogs(requests[i], arrival, memory.DefaultAllocator)
					if err != nil || !array.RecordEqual(want.Record, b.Record) || want.Adjusted != b.Adjusted {
						t.Errorf("batch %d changed under its owner: %v", i, err)
						return
					}
					b.Record.Release()
				}
			}
		})
	}
	wg.Wait()
}

// Several requests make the batch that one request with all their resources makes.
func TestEncoder_merges_requests(t *testing.T) {
	t.Parallel()
	enc := otelarrow.NewEncoder()
	g := newGen(t, true)
	same := func(one, merged otelarrow.Batch, err error) {
		require.NoError(t, err)
		require.True(t, array.RecordApproxEqual(one.Record, merged.Record, array.WithNaNsEqual(true), array.WithAbsTolerance(0)))
		one.Record.Release()
		merged.Record.Release()
		one.Record, merged.Record = nil, nil
		require.Equal(t, one, merged)
	}
	for range rounds {
		logs, spans, points := []plog.Logs{g.logs(), g.logs(), plog.NewLogs(), g.logs()}, []ptrace.Traces{g.traces(), g.traces()}, []pmetric.Metrics{g.metrics(), g.metrics()}
		ld, td, md := plog.NewLogs(), ptrace.NewTraces(), pmetric.NewMetrics()
		for _, r := range logs {
			for _, rl := range r.ResourceLogs().All() {
				rl.CopyTo(ld.ResourceLogs().AppendEmpty())
			}
		}
		for _, r := range spans {
			for _, rs := range r.ResourceSpans().All() {
				rs.CopyTo(td.ResourceSpans().AppendEmpty())
			}
		}
		for _, r := range points {
			for _, rm := range r.ResourceMetrics().All() {
				rm.CopyTo(md.ResourceMetrics().AppendEmpty())
			}
		}
		_, one := encode(t, ld, memory.DefaultAllocator)
		merged, err := enc.EncodeLogs(arrival, logs...)
		same(one, merged, err)
		_, one = encode(t, td, memory.DefaultAllocator)
		merged, err = enc.EncodeTraces(arrival, spans...)
		same(one, merged, err)
		_, one = encode(t, md, memory.DefaultAllocator)
		merged, err = enc.EncodeMetrics(arrival, points...)
		same(one, merged, err)
	}
}

// Consumers keep columns longer than the record.
func TestEncoder_a_kept_column_outlives_the_record(t *testing.T) {
	t.Parallel()
	enc := otelarrow.NewEncoder()
	b, err := enc.EncodeLogs(arrival, oneLog(func(lr plog.LogRecord) { lr.Body().SetStr("kept") }))
	require.NoError(t, err)
	body := b.Record.Column(b.Record.Schema().FieldIndices("body")[0])
	body.Retain()
	b.Record.Release()
	for range 10 {
		other, err := enc.EncodeLogs(arrival, oneLog(func(lr plog.LogRecord) { lr.Body().SetStr("over") }))
		require.NoError(t, err)
		other.Record.Release()
	}
	require.Equal(t, "kept", body.(*array.String).Value(0))
	body.Release()
}

// A request with bad text is encoded twice within; nothing of the first try may stay.
func TestEncoder_a_bad_request_leaves_no_trace_in_the_next(t *testing.T) {
	t.Parallel()
	enc := otelarrow.NewEncoder()
	for range 3 {
		bad, err := enc.EncodeLogs(arrival, oneLog(func(lr plog.LogRecord) { lr.Body().SetStr("\xff") }))
		require.NoError(t, err)
		require.Equal(t, otelarrow.Adjusted{InvalidUTF8: 1}, bad.Adjusted)
		require.EqualValues(t, 1, bad.Record.NumRows())
		bad.Record.Release()
		good, err := enc.EncodeLogs(arrival, oneLog(func(lr plog.LogRecord) { lr.Body().SetStr("good") }))
		require.NoError(t, err)
		require.Zero(t, good.Adjusted)
		good.Record.Release()
	}
}

func TestAdjusted_All_names_each_reason_once(t *testing.T) {
	t.Parallel()
	got := maps.Collect((otelarrow.Adjusted{DuplicateKeys: 1, InvalidUTF8: 2, TimesClamped: 3, CountsClamped: 4}).All())
	require.Equal(t, map[string]int64{"duplicate_key": 1, "invalid_utf8": 2, "time_clamped": 3, "count_clamped": 4}, got)
	for reason := range (otelarrow.Adjusted{}).All() {
		require.Equal(t, "duplicate_key", reason)
		break
	}
}
