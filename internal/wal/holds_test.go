package wal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// A lane holds rows of one kind: of those who were here first, also after a restart and for another process.
func TestAppend_a_lane_holds_one_kind(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	l := open(t, options(disk, "/wal"))
	as := func(kind string, id int64) Request {
		r := request(t, WaitFor, id)
		r.Index, r.Holds = "audit", kind
		return r
	}
	refused := func(l *Log, id int64) {
		_, err := l.Append(t.Context(), as("traces", id))
		require.Equal(t, &HoldsError{Tenant: "t", Index: "audit", Have: "logs", Want: "traces"}, err)
		require.ErrorContains(t, l.Reserve("t", "audit", "metrics"), `index "audit" holds logs, not metrics`)
	}
	require.NoError(t, l.Reserve("t", "audit", "logs"))
	refused(l, 1)
	_, err := l.Append(t.Context(), as("logs", 2))
	require.NoError(t, err)
	require.NoError(t, l.Reserve("t", "events", ""))
	require.ErrorIs(t, l.Reserve("t", "Bad", "logs"), segment.ErrBadName)
	closeLog(t, l)

	l = open(t, options(disk, "/wal"))
	refused(l, 3)
	_, err = l.Append(t.Context(), as("logs", 4))
	require.NoError(t, err)
	closeLog(t, l)
	var ids []int64
	for _, f := range scan(t, disk, "/wal") {
		require.Equal(t, "t/audit", f.lane)
		ids = append(ids, f.ids...)
	}
	require.ElementsMatch(t, []int64{2, 4}, ids)
}

// A limit refuses before there is a lane, and leaves nothing behind.
func TestReserve_limits(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	opt := options(disk, "/wal")
	opt.MaxLanes = 1
	l := open(t, opt)
	require.NoError(t, l.Reserve("t", "a", "logs"))
	var full *LimitError
	require.ErrorAs(t, l.Reserve("t", "b", "logs"), &full)
	require.Equal(t, "max_lanes", full.Limit)
	_, err := disk.Stat("/wal/t/b")
	require.Error(t, err)
	closeLog(t, l)
}
