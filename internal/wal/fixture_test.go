package wal

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// testTime is when dead writers named their segments.
var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// testSchemas are two layouts, so that a test can change between them.
var testSchemas = [2]*arrow.Schema{
	arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String},
	}, nil),
	arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "more", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	}, nil),
}

// wide is the text of a row: a batch of two rows spans five sectors, so that a crash can leave holes inside.
var wide = strings.Repeat("0123456789abcdef", 64)

// body encodes one batch with the given ids.
func body(tb testing.TB, schema *arrow.Schema, ids ...int64) []byte {
	tb.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, id := range ids {
		b.Field(0).(*array.Int64Builder).Append(id)
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("%d %s", id, wide))
		if schema.NumFields() > 2 {
			b.Field(2).AppendNull()
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	e, err := frame.NewEncoder(schema)
	require.NoError(tb, err)
	msg, err := e.Append(nil, rec)
	require.NoError(tb, err)
	return msg
}

// simLane is lane t/events of a fresh root on a simulated disk.
func simLane(tb testing.TB) (*simfs.FS, segment.Lane) {
	tb.Helper()
	disk := simfs.New(nil)
	root, err := segment.Create(disk, "/wal")
	require.NoError(tb, err)
	lane, err := root.Lane("t", "events")
	require.NoError(tb, err)
	require.NoError(tb, lane.Prepare())
	return disk, lane
}

// diskFault is one operation that the disk refuses.
type diskFault struct {
	kind simfs.Kind
	err  error
}

func (f diskFault) String() string { return fmt.Sprintf("%s %v", f.kind, f.err) }

// diskFaults are what a disk may answer. The corpus of FuzzRecoverOps counts on the order.
func diskFaults() []diskFault {
	return []diskFault{
		{simfs.Sync, syscall.EIO},
		{simfs.SyncDir, syscall.EIO},
		{simfs.Writev, syscall.ENOSPC},
		{simfs.Writev, &simfs.ShortWrite{Bytes: 700, Err: syscall.ENOSPC}},
		{simfs.Writev, &simfs.ShortWrite{Bytes: 3000, Err: syscall.EIO}},
		{simfs.WriteAt, syscall.EIO},
		{simfs.Create, syscall.ENOSPC},
		{simfs.Link, syscall.EIO},
		{simfs.Link, syscall.EPERM},
		{simfs.Remove, syscall.EIO},
		{simfs.Truncate, syscall.EIO},
		{simfs.Rename, syscall.EIO},
	}
}

// request is a batch for lane t/events; its event times are its ids.
func request(tb testing.TB, mode Mode, ids ...int64) Request {
	tb.Helper()
	return Request{
		Tenant: "t", Index: "events", Schema: testSchemas[0], Body: body(tb, testSchemas[0], ids...), Rows: len(ids),
		MinTime: slices.Min(ids), MaxTime: slices.Max(ids), Mode: mode,
	}
}

// options make a log that seals only when told to, and that no small disk refuses.
func options(fsys vfs.FS, dir string) Options {
	return Options{FS: fsys, Dir: dir, MaxAge: time.Hour, MaxBytes: 1 << 40, MinFree: 1}
}

func open(tb testing.TB, opt Options) *Log {
	tb.Helper()
	l, err := Open(tb.Context(), opt)
	require.NoError(tb, err)
	return l
}

func closeLog(tb testing.TB, l *Log) {
	tb.Helper()
	require.NoError(tb, l.Close(tb.Context()))
}

// found is one segment on disk.
type found struct {
	lane    string
	state   segment.State
	id      segment.ID
	ids     []int64
	header  frame.Header
	dropped int64
}

// scan reads every segment of every state, in order of lane, writer and number.
func scan(tb testing.TB, fsys vfs.FS, dir string) []found {
	tb.Helper()
	root, err := segment.Open(fsys, dir)
	require.NoError(tb, err)
	lanes, strangers, err := root.Lanes()
	require.NoError(tb, err)
	require.Empty(tb, strangers)
	var all []found
	for _, ln := range lanes {
		for _, st := range []segment.State{segment.Active, segment.Sealed, segment.Processing, segment.Committed} {
			entries, strangers, err := ln.List(st)
			require.NoError(tb, err)
			require.Empty(tb, strangers)
			for _, e := range entries {
				f := readSegment(tb, fsys, ln.Path(st, e.Name), st == segment.Active)
				f.lane, f.state, f.id = ln.Key(), st, e.ID
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.lane, b.lane), slices.Compare(a.id.Writer[:], b.id.Writer[:]), cmp.Compare(a.id.Seq, b.id.Seq))
	})
	return all
}

func readSegment(tb testing.TB, fsys vfs.FS, path string, open bool) found {
	tb.Helper()
	f, err := fsys.Open(path)
	require.NoError(tb, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(tb, err)
	seg, err := frame.Decode(f, info.Size, frame.DecodeOptions{Open: open})
	require.NoError(tb, err, path)
	defer seg.Release()
	out := found{header: seg.Header, dropped: seg.TailDropped}
	for _, b := range seg.Batches {
		ids, texts := b.Column(0).(*array.Int64), b.Column(1).(*array.String)
		for i := range int(b.NumRows()) {
			require.Equal(tb, fmt.Sprintf("%d %s", ids.Value(i), wide), texts.Value(i), "ACK-2 %s", path)
			out.ids = append(out.ids, ids.Value(i))
		}
	}
	return out
}

// ids are the row ids of all segments in a state.
func idsIn(segs []found, st segment.State) []int64 {
	var out []int64
	for _, s := range segs {
		if s.state == st {
			out = append(out, s.ids...)
		}
	}
	return out
}

// names lists a directory of lane t/events.
func names(tb testing.TB, fsys vfs.FS, dir string, st segment.State) []string {
	tb.Helper()
	entries, err := fsys.List(filepath.Join(dir, "t", "events", string(st)))
	require.NoError(tb, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name)
	}
	return out
}

// each runs fn for 0 to n-1 at once.
func each(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}
