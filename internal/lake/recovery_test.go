package lake_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// place is a log with its mirror, and the lake that it is drained into.
type place struct {
	t     *testing.T
	dir   string // of the log
	store *storetest.Store
	lake  *lake.Lake
	off   atomic.Int64     // how far the clock of lake and drain is off, ns
	ahead time.Duration    // how far the writer's is before theirs
	rows  map[string]int64 // sent, by segment
	total int64

	m    *mirror.Mirror
	log  *wal.Log
	stop func()
}

func newPlace(t *testing.T, proof int) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{t: t, dir: filepath.Join(dir, "wal"), store: &storetest.Store{}, rows: map[string]int64{}}
	l, err := lake.OpenWithProof(t.Context(), lake.Options{
		Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse"),
	}, proof, p.now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	p.lake = l
	return p
}

func (p *place) now() time.Time { return time.Now().Add(time.Duration(p.off.Load())) }

// start begins a life of log and mirror.
func (p *place) start() {
	p.t.Helper()
	var err error
	p.m, err = mirror.New(mirror.Options{Dir: p.dir, Store: p.store})
	require.NoError(p.t, err)
	p.log, err = wal.Open(p.t.Context(), wal.Options{Dir: p.dir, MaxAge: time.Hour, MinFree: 1, Mirror: p.m, Now: func() time.Time { return p.now().Add(p.ahead) }})
	require.NoError(p.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	var run sync.WaitGroup
	run.Go(func() { p.m.Run(ctx) })
	p.stop = func() {
		p.t.Helper()
		require.NoError(p.t, p.log.Close(ctx))
		require.Zero(p.t, p.m.Flush(ctx))
		cancel()
		run.Wait()
	}
}

// seal writes segments of some rows, and returns when all are in the mirror.
func (p *place) seal(segments int) {
	p.t.Helper()
	for range segments {
		n := 1 + len(p.rows)%3
		ld := plog.NewLogs()
		records := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
		for range n {
			records.AppendEmpty().Body().SetStr("row")
		}
		batch, err := otelarrow.NewEncoder().EncodeLogs(time.Now(), ld)
		require.NoError(p.t, err)
		enc, err := frame.NewEncoder(otelarrow.WALSchema(otelarrow.Logs))
		require.NoError(p.t, err)
		body, err := enc.Append(nil, batch.Record)
		require.NoError(p.t, err)
		batch.Record.Release()
		r, err := p.log.Append(p.t.Context(), wal.Request{
			Tenant: "default", Index: "events", Schema: otelarrow.WALSchema(otelarrow.Logs), Body: body, Rows: n,
			MinTime: batch.MinTime, MaxTime: batch.MaxTime, Mode: wal.WaitFor,
		})
		require.NoError(p.t, err)
		require.NoError(p.t, p.log.Seal(p.t.Context(), "default", "events"))
		require.NoError(p.t, p.m.Confirmed(p.t.Context(), r.Segment))
		p.rows[r.Segment.String()] = int64(n)
		p.total += int64(n)
	}
}

func (p *place) options() drain.Options {
	return drain.Options{
		FS: vfs.OS(), WAL: p.dir, Lake: p.lake, Retain: time.Nanosecond, RetainPartial: time.Nanosecond,
		Poll: 10 * time.Millisecond, GateAge: time.Nanosecond, Now: p.now,
	}
}

func (p *place) drain() drain.Report {
	p.t.Helper()
	r, err := drain.Once(p.t.Context(), p.options())
	require.NoError(p.t, err)
	require.Empty(p.t, r.Failures)
	return r
}

func (p *place) table() *lake.Table {
	p.t.Helper()
	table, _, err := p.lake.Ensure(p.t.Context(), "default", "events", otelarrow.Logs)
	require.NoError(p.t, err)
	return table
}

// exact: every row that was sent is in the table, once.
func (p *place) exact() {
	p.t.Helper()
	var ids []string
	for id := range p.rows {
		ids = append(ids, id)
	}
	found, err := p.table().Lookup(p.t.Context(), ids)
	require.NoError(p.t, err)
	require.Len(p.t, found, len(p.rows))
	for id, n := range p.rows {
		require.Equal(p.t, n, found[id], id)
	}
	infos, err := p.lake.Tables(p.t.Context())
	require.NoError(p.t, err)
	require.Equal(p.t, p.total, infos[0].Rows)
}

// LAKE-1: everything that a long load ever mirrored is recovered, after its snapshots were expired and most of it was dropped from
// the proof, and what was not yet committed when the volume was lost is among it. No row is there twice, none is missing.
func TestRecovery_of_everything_after_expiry(t *testing.T) {
	// Not parallel: who starts a process beside it holds its locks for a moment.
	commits, each, keep, proof := 30, 3, 10, 32 // an hour in small
	switch {
	case os.Getenv("SIGLAKE_SOAK") != "":
		commits, keep, proof = 1500, 100, 0 // a commit each 2.4 s, and what is kept for ever
	case testing.Short():
		commits = 15
	}
	p := newPlace(t, proof)
	p.start()
	for range commits {
		p.seal(each)
		require.EqualValues(t, each, p.drain().Segments)
	}
	committed := p.total
	p.seal(20)
	p.stop()
	proved, err := p.table().Proved(t.Context())
	require.NoError(t, err)
	require.Less(t, proved, len(p.rows)/2, "the proof has forgotten most")
	left, err := p.table().Expire(t.Context(), keep)
	require.NoError(t, err)
	require.Equal(t, keep, left)

	for life := range 2 {
		require.NoError(t, os.RemoveAll(p.dir))
		rep, err := mirror.Restore(t.Context(), mirror.RestoreOptions{Dir: p.dir, Store: p.store})
		require.NoError(t, err)
		require.Equal(t, [2]int{commits*each + 20, 0}, [2]int{rep.Lanes[0].Restored, len(rep.Unreadable) + len(rep.Failed) + len(rep.Gaps)})
		report := p.drain()
		require.EqualValues(t, commits*each+20, report.Segments)
		require.Equal(t, [2]int64{p.total - committed, committed}, [2]int64{report.Rows, report.Duplicates}, "life %d", life)
		p.exact()
		committed = p.total
	}
}

// LAKE-1: everything is recovered beside the drain that has committed it, which remembers it no more. The clock of the writer was
// ahead then, by which its segments look younger than the oldest that the proof lists.
func TestRecovery_beside_the_drain_that_forgot(t *testing.T) {
	// Not parallel: who starts a process beside it holds its locks for a moment.
	p := newPlace(t, 4)
	p.off.Store(int64(-50 * time.Minute))
	p.ahead = 10 * time.Minute
	p.start()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- drain.Run(ctx, p.options()) }()
	for range 5 {
		p.seal(4)
		p.rest()
	}
	p.exact()
	p.off.Store(0)
	rep, err := mirror.Restore(t.Context(), mirror.RestoreOptions{Dir: p.dir, Store: p.store, Online: true})
	require.NoError(t, err)
	require.Equal(t, 20, rep.Lanes[0].Restored)
	p.rest()
	p.exact()
	cancel()
	require.NoError(t, <-done)
	p.stop()
}

// rest waits until the log is empty.
func (p *place) rest() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		names, err := filepath.Glob(filepath.Join(p.dir, "*", "*", "*", "*.arrow"))
		require.NoError(p.t, err)
		return len(names) == 0
	}, 2*time.Minute, 5*time.Millisecond)
}
