package wal

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// A1: an open segment cut at each of its bytes. Each start succeeds, each whole batch is kept, and each tail is told
// once, with its file, where it begins and how long it is. ACK-2, LOUD-1.
func TestA1_cut_at_every_byte(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	whole, ends := partial(t, uuid.Nil)
	ids := someIDs(len(whole) + 1)
	const perRoot = 500 // simulated directories get slow when they are large
	for from := 0; from <= len(whole); from += perRoot {
		cuts := ids[from:min(from+perRoot, len(ids))]
		disk, lane := simLane(t)
		for i, id := range cuts {
			f, err := disk.Create(lane.Path(segment.Active, id.PartialName()))
			require.NoError(t, err)
			_, err = f.Writev([][]byte{whole[:from+i]})
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		core, logs := observer.New(zap.WarnLevel)
		opt := options(disk, "/wal")
		opt.Logger = zap.New(core)
		closeLog(t, open(t, opt))

		got := map[segment.ID][]int64{}
		for _, s := range scan(t, disk, "/wal") {
			require.Equal(t, segment.Sealed, s.state)
			got[s.id] = s.ids
		}
		told := map[string][]observer.LoggedEntry{}
		for _, e := range logs.All() {
			name, _ := e.ContextMap()["segment"].(string)
			told[name] = append(told[name], e)
		}
		for i, id := range cuts {
			requireCut(t, from+i, ends, got[id], told[id.PartialName()])
		}
		require.Empty(t, names(t, disk, "/wal", segment.Active))
	}
}

// requireCut holds what became of a segment cut at a byte, and what was said about it, against where its batches end.
func requireCut(t *testing.T, cut int, ends []int, got []int64, told []observer.LoggedEntry) {
	t.Helper()
	var want []int64
	kept := 0
	for i, ids := range [][]int64{{1, 2}, {3}, {4, 5}} {
		if cut >= ends[2+i] {
			want, kept = append(want, ids...), ends[2+i]
		}
	}
	require.Equal(t, want, got, "cut at %d", cut)
	switch {
	case cut <= ends[0] || cut == ends[1] || cut == kept: // nothing was ever in it, or nothing is missing
		require.Empty(t, told, "cut at %d", cut)
	case cut < ends[1]: // a schema that is not whole: set aside with a reason
		require.Len(t, told, 1, "cut at %d", cut)
		require.Equal(t, zapcore.ErrorLevel, told[0].Level)
	default:
		require.Len(t, told, 1, "cut at %d", cut)
		require.Equal(t, zapcore.WarnLevel, told[0].Level)
		require.Contains(t, told[0].Message, "torn tail")
		if kept == 0 {
			require.Contains(t, told[0].Message, "removed")
			kept = ends[1]
		}
		fields := told[0].ContextMap()
		require.Equal(t, int64(kept), fields["offset"])
		require.Equal(t, int64(cut-kept), fields["dropped_bytes"])
	}
}
