package wal

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// What Append answered is in the sealed segment at the rows of the receipt, in order, with the header's claims
// true. ACK-1, ORD-1.
func TestAppendSealClose(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "wal")
	l := open(t, options(vfs.OS(), dir))
	ctx := t.Context()
	r1, err := l.Append(ctx, request(t, WaitFor, 10, 11))
	require.NoError(t, err)
	r2, err := l.Append(ctx, request(t, Auto, 5))
	require.NoError(t, err)
	require.Equal(t, Receipt{Segment: r1.Segment, First: 2, End: 3}, r2)
	require.NoError(t, l.Seal(ctx, "t", "events"))
	r3, err := l.Append(ctx, request(t, WaitFor, 12))
	require.NoError(t, err)
	require.EqualValues(t, 2, r3.Segment.Seq)
	require.Equal(t, r1.Segment.Writer, r3.Segment.Writer)
	closeLog(t, l)
	closeLog(t, l) // twice is safe

	segs := scan(t, vfs.OS(), dir)
	require.Len(t, segs, 2)
	require.Equal(t, []int64{10, 11, 5}, segs[0].ids)
	require.Equal(t, []int64{12}, segs[1].ids)
	require.False(t, segs[0].header.Partial)
	require.EqualValues(t, 5, segs[0].header.MinTime)
	require.EqualValues(t, 11, segs[0].header.MaxTime)
	require.Equal(t, segment.Sealed, segs[0].state)
	require.Equal(t, r1.Segment, segs[0].id)

	_, err = l.Append(ctx, request(t, WaitFor, 1))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, l.Seal(ctx, "t", "events"), ErrClosed)
}

// A segment tells its time range only if each of its batches did: a reader that prunes by it must miss no row.
func TestUnknownTimes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, options(vfs.OS(), dir))
	for i, id := range []int64{7, 3, 9} {
		r := request(t, Auto, id)
		if i == 1 {
			r.MinTime, r.MaxTime = 0, 0
		}
		_, err := l.Append(t.Context(), r)
		require.NoError(t, err)
	}
	closeLog(t, l)
	segs := scan(t, vfs.OS(), dir)
	require.Len(t, segs, 1)
	require.Zero(t, segs[0].header.MinTime)
	require.Zero(t, segs[0].header.MaxTime)
}

// An empty request succeeds and leaves no trace; a malformed one is told apart from trouble with the disk.
func TestAppendWithoutRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, options(vfs.OS(), dir))
	ctx := t.Context()
	got, err := l.Append(ctx, Request{Tenant: "t", Index: "events"})
	require.NoError(t, err)
	require.Equal(t, Receipt{}, got)
	good := request(t, WaitFor, 1)
	for name, change := range map[string]func(*Request){
		"no rows":   func(r *Request) { r.Rows = 0 },
		"no body":   func(r *Request) { r.Body = nil },
		"no schema": func(r *Request) { r.Schema = nil },
		"bad mode":  func(r *Request) { r.Mode = modes },
		"cut body":  func(r *Request) { r.Body = r.Body[:len(r.Body)-8] },
	} {
		r := good
		change(&r)
		_, err := l.Append(ctx, r)
		require.ErrorIs(t, err, ErrRequest, name)
	}
	bad := good
	bad.Tenant = "../x"
	_, err = l.Append(ctx, bad)
	require.ErrorIs(t, err, segment.ErrBadName)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = l.Append(canceled, good)
	require.ErrorIs(t, err, context.Canceled)
	closeLog(t, l)
	require.Empty(t, scan(t, vfs.OS(), dir))
}

// Each way to roll ends a segment where it should. ORD-1.
func TestRoll(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	one := int64(len(body(t, testSchemas[0], 1)))
	for _, tc := range []struct {
		name  string
		opt   func(*Options)
		act   func(t *testing.T, l *Log)
		rows  []int // per segment
		waits bool  // the seal comes by itself
	}{
		{
			name: "events", opt: func(o *Options) { o.MaxEvents = 4 }, rows: []int{4, 5, 1}, waits: true,
			act: func(t *testing.T, l *Log) {
				t.Helper()
				for _, n := range [][]int64{{1, 2}, {3, 4}, {5, 6, 7}, {8, 9}, {10}} {
					_, err := l.Append(ctx, request(t, WaitFor, n...))
					require.NoError(t, err)
				}
			},
		},
		{
			name: "bytes", opt: func(o *Options) { o.SegmentMaxBytes = 3 * one }, rows: []int{2, 1, 9, 1},
			act: func(t *testing.T, l *Log) {
				t.Helper()
				for _, n := range [][]int64{{1}, {2}, {3}, {4, 5, 6, 7, 8, 9, 10, 11, 12}, {13}} {
					_, err := l.Append(ctx, request(t, Auto, n...))
					require.NoError(t, err)
				}
			},
		},
		{
			name: "schema", rows: []int{1, 1, 1},
			act: func(t *testing.T, l *Log) {
				t.Helper()
				for i := range 3 {
					r := request(t, WaitFor, int64(i+1))
					r.Schema = testSchemas[i%2]
					r.Body = body(t, r.Schema, int64(i+1))
					_, err := l.Append(ctx, r)
					require.NoError(t, err)
				}
			},
		},
		{
			name: "age", opt: func(o *Options) { o.MaxAge = 20 * time.Millisecond }, rows: []int{1}, waits: true,
			act: func(t *testing.T, l *Log) {
				t.Helper()
				_, err := l.Append(ctx, request(t, Auto, 1))
				require.NoError(t, err)
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			opt := options(vfs.OS(), dir)
			if tc.opt != nil {
				tc.opt(&opt)
			}
			l := open(t, opt)
			tc.act(t, l)
			if tc.waits {
				require.Eventually(t, func() bool {
					root, err := segment.Open(vfs.OS(), dir)
					require.NoError(t, err)
					ln, err := root.Lane("t", "events")
					require.NoError(t, err)
					sealed, _, err := ln.List(segment.Sealed)
					require.NoError(t, err)
					return len(sealed) > 0
				}, time.Minute, time.Millisecond)
			}
			closeLog(t, l)
			var rows []int
			for _, s := range scan(t, vfs.OS(), dir) {
				require.Equal(t, segment.Sealed, s.state)
				rows = append(rows, len(s.ids))
			}
			require.Equal(t, tc.rows, rows)
		})
	}
}

// A segment carries the owner of its lane, and never two owners.
func TestOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx := t.Context()
	l := open(t, options(vfs.OS(), dir))
	_, err := l.Append(ctx, request(t, WaitFor, 1))
	require.NoError(t, err)
	lane, err := l.root.Lane("t", "events")
	require.NoError(t, err)
	table := uuid.MustParse("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
	require.NoError(t, lane.WriteOwner(table))
	ln, err := l.lane("t", "events")
	require.NoError(t, err)
	ln.rebind.Store(true) // as the watcher does
	signal(ln.wake)
	require.Eventually(t, func() bool { return len(names(t, vfs.OS(), dir, segment.Sealed)) == 1 }, time.Minute, time.Millisecond)
	_, err = l.Append(ctx, request(t, WaitFor, 2))
	require.NoError(t, err)
	closeLog(t, l)
	segs := scan(t, vfs.OS(), dir)
	require.Len(t, segs, 2)
	require.Equal(t, uuid.Nil, segs[0].header.Table)
	require.Equal(t, table, segs[1].header.Table)
}

// A second open of one root is refused with the holder's text, in this process too; after Close it is free.
func TestLock_T08(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opt := options(vfs.OS(), dir)
	opt.Holder = "collector-7"
	for range 3 {
		l := open(t, opt)
		_, err := Open(t.Context(), opt)
		var locked *vfs.LockedError
		require.ErrorAs(t, err, &locked)
		require.Contains(t, locked.Holder, "collector-7, host ")
		require.ErrorContains(t, err, "wal.directory")
		closeLog(t, l)
	}
}

// Wrong directories are refused with path and setting, and nothing is left in them.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "CURRENT"), nil, 0o600))
	_, err := Open(ctx, options(vfs.OS(), foreign))
	require.ErrorIs(t, err, segment.ErrNotEmpty)
	require.ErrorContains(t, err, foreign)
	entries, err := os.ReadDir(foreign)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	_, err = Open(ctx, Options{})
	require.ErrorContains(t, err, "wal.directory")
	_, err = Open(ctx, Options{Dir: foreign, MaxEvents: -1})
	require.ErrorContains(t, err, "max_events")

	file := filepath.Join(foreign, "CURRENT")
	_, err = Open(ctx, options(vfs.OS(), file))
	require.ErrorContains(t, err, file)

	_, err = Open(ctx, options(denying{vfs.OS()}, t.TempDir()))
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorContains(t, err, "uid ")
	require.ErrorContains(t, err, "wal.directory")
}

// denying is a disk on which this user may create nothing.
type denying struct{ vfs.FS }

func (d denying) Lock(name, _ string) (io.Closer, error) {
	return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrPermission}
}

// 64 goroutines on three lanes, rolling all the time: each acknowledged row is in sealed/ exactly once, each
// writer's numbers have no gap, and each receipt is true. ACK-1, ORD-1; meant for -race.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opt := options(vfs.OS(), dir)
	opt.MaxEvents = 16
	opt.MaxAge = 5 * time.Millisecond
	l := open(t, opt)
	const writers, rounds = 64, 12
	receipts := make([][rounds]Receipt, writers)
	each(writers, func(i int) {
		for n := range rounds {
			id := int64(1 + i*rounds*2 + n*2)
			r := request(t, Mode(n%2), id, id+1)
			r.Tenant = []string{"a", "b", "c"}[i%3]
			got, err := l.Append(t.Context(), r)
			require.NoError(t, err)
			receipts[i][n] = got
		}
	})
	closeLog(t, l)
	bySegment := map[segment.ID]found{}
	next := map[string]uint64{}
	total := 0
	for _, s := range scan(t, vfs.OS(), dir) {
		require.Equal(t, segment.Sealed, s.state)
		next[s.lane]++
		require.Equal(t, next[s.lane], s.id.Seq, "gapless in %s", s.lane)
		bySegment[s.id] = s
		total += len(s.ids)
	}
	require.Equal(t, writers*rounds*2, total)
	for i := range writers {
		for n := range rounds {
			r := receipts[i][n]
			id := int64(1 + i*rounds*2 + n*2)
			require.Equal(t, []int64{id, id + 1}, bySegment[r.Segment].ids[r.First:r.End])
		}
	}
	require.True(t, strings.HasPrefix(bySegment[receipts[0][0].Segment].lane, "a/"))
}

// Closed and opened again under load, as on a configuration reload: each request is either acknowledged, and
// then in a sealed segment exactly once, or refused as closed and nowhere (C9, C10). ACK-1.
func TestCloseUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opt := options(vfs.OS(), dir)
	opt.MaxEvents = 50
	var acked []int64
	next := int64(0)
	for range 10 {
		l := open(t, opt)
		const writers = 16
		got := make([][]int64, writers)
		started := make(chan struct{}, writers)
		var wg sync.WaitGroup
		for i := range writers {
			from := next + int64(i)*1_000_000
			wg.Go(func() {
				for id := from + 1; ; id++ {
					_, err := l.Append(t.Context(), request(t, Mode(id%2), id))
					if err != nil {
						require.ErrorIs(t, err, ErrClosed)
						return
					}
					got[i] = append(got[i], id)
					signal(started)
				}
			})
		}
		next += writers * 1_000_000
		<-started
		closeLog(t, l)
		wg.Wait()
		acked = append(acked, slices.Concat(got...)...)
	}
	var found []int64
	for _, s := range scan(t, vfs.OS(), dir) {
		require.Equal(t, segment.Sealed, s.state)
		found = append(found, s.ids...)
	}
	slices.Sort(acked)
	slices.Sort(found)
	require.Equal(t, acked, found)
}
