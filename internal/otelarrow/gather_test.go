package otelarrow_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

func TestGatherTry(t *testing.T) {
	ld := realLogs(t, 3)
	b, err := otelarrow.NewEncoder().EncodeLogs(ld, arrival)
	require.NoError(t, err)
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	rec, err := otelarrow.Gather(otelarrow.Logs, []otelarrow.Source{{SegmentID: "x", Record: b.Record}}, []otelarrow.RowRef{{0, 1}, {0, 0}, {0, 2}}, mem)
	require.NoError(t, err)
	t.Log(rec)
	rec.Release()
	mem.AssertSize(t, 0)
}
