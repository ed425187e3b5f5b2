package otelarrow_test

import (
	"maps"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

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
					b, err := enc.EncodeLogs(ld, arrival)
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

// Consumers keep columns longer than the record.
func TestEncoder_a_kept_column_outlives_the_record(t *testing.T) {
	t.Parallel()
	enc := otelarrow.NewEncoder()
	b, err := enc.EncodeLogs(oneLog(func(lr plog.LogRecord) { lr.Body().SetStr("kept") }), arrival)
	require.NoError(t, err)
	body := b.Record.Column(b.Record.Schema().FieldIndices("body")[0])
	body.Retain()
	b.Record.Release()
	for range 10 {
		other, err := enc.EncodeLogs(oneLog(func(lr plog.LogRecord) { lr.Body().SetStr("over") }), arrival)
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
		bad, err := enc.EncodeLogs(oneLog(func(lr plog.LogRecord) { lr.Body().SetStr("\xff") }), arrival)
		require.NoError(t, err)
		require.Equal(t, otelarrow.Adjusted{InvalidUTF8: 1}, bad.Adjusted)
		require.EqualValues(t, 1, bad.Record.NumRows())
		bad.Record.Release()
		good, err := enc.EncodeLogs(oneLog(func(lr plog.LogRecord) { lr.Body().SetStr("good") }), arrival)
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
