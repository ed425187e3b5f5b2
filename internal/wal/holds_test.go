package wal

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
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

// Where nothing says what an index holds, or its file is damaged, its segments do, and not the request that comes first. Without
// segments a damaged file refuses everybody for the time: no *HoldsError, which clients drop their rows for.
func TestAppend_the_segments_say_what_a_lane_holds(t *testing.T) {
	t.Parallel()
	logs := arrow.MetadataFrom(map[string]string{"siglake.signal": "logs"})
	for _, damage := range []string{"", "lofs\n"} {
		disk := simfs.New(nil)
		told, seen := observer.New(zap.WarnLevel)
		opt := options(disk, "/wal")
		opt.Logger = zap.New(told)
		as := func(index, kind string, id int64) Request {
			r := request(t, WaitFor, id)
			r.Index, r.Holds, r.Schema = index, kind, arrow.NewSchema(testSchemas[0].Fields(), &logs)
			return r
		}
		l := open(t, opt)
		_, err := l.Append(t.Context(), as("audit", "logs", 1))
		require.NoError(t, err)
		require.NoError(t, l.Reserve("t", "empty", "logs"))
		closeLog(t, l)
		for _, index := range []string{"audit", "empty"} {
			name := "/wal/t/" + index + "/holds"
			require.NoError(t, disk.Remove(name))
			if damage != "" {
				require.NoError(t, vfs.WriteFile(disk, name, []byte(damage)))
			}
		}

		l = open(t, opt)
		require.Equal(t, &HoldsError{Tenant: "t", Index: "audit", Have: "logs", Want: "traces"}, l.Reserve("t", "audit", "traces"))
		_, err = l.Append(t.Context(), as("audit", "logs", 2))
		require.NoError(t, err)
		warned := seen.FilterMessageSnippet("is written anew, as its newest segment says").All()
		require.Len(t, warned, 1)
		require.Equal(t, "t/audit", warned[0].ContextMap()["lane"])
		require.Contains(t, warned[0].ContextMap()["segment"], "sealed/")
		if damage == "" {
			require.NoError(t, l.Reserve("t", "empty", "traces"))
			closeLog(t, l)
			continue
		}
		_, err = l.Append(t.Context(), as("empty", "logs", 3))
		require.ErrorIs(t, err, segment.ErrRecord)
		require.ErrorContains(t, err, "/wal/t/empty/holds")
		var holds *HoldsError
		require.NotErrorAs(t, err, &holds)
		// What the error says to do helps at once.
		require.NoError(t, vfs.WriteFile(disk, "/wal/t/empty/holds", []byte("logs\n")))
		_, err = l.Append(t.Context(), as("empty", "logs", 4))
		require.NoError(t, err)
		closeLog(t, l)
	}
}
