package crashtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/killfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// requests of a life; request n has n+1 rows, and is a batch of its own.
const mirroredRequests = 4

// mirroredLife is a life with everything real: a log with a mirror in a directory, two segments of two requests each, of which
// the copies are waited for, a drain that commits, marks and retires, and an end in order.
func mirroredLife(dir string, fsys vfs.FS, ack func(int)) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, err := objstore.Open(ctx, "file://"+filepath.Join(dir, "bucket"), objstore.Options{FS: fsys})
	if err != nil {
		return err
	}
	root := filepath.Join(dir, "wal")
	m, err := mirror.New(mirror.Options{
		FS: fsys, Dir: root, Store: store, Concurrency: 1, SweepInterval: 50 * time.Millisecond, ActiveInterval: 10 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	log, err := wal.Open(ctx, wal.Options{FS: fsys, Dir: root, MaxAge: time.Hour, MinFree: 1, Mirror: m})
	if err != nil {
		return err
	}
	var run sync.WaitGroup
	run.Go(func() { m.Run(ctx) })
	defer run.Wait()
	defer cancel()
	for n := range mirroredRequests {
		receipt, err := appendRows(ctx, log, n+1)
		if err != nil {
			return err
		}
		ack(n)
		if n%2 == 0 {
			time.Sleep(25 * time.Millisecond) // its copy, as an open segment
			continue
		}
		if err := log.Seal(ctx, "default", "events"); err != nil {
			return err
		}
		if err := m.Confirmed(ctx, receipt.Segment); err != nil {
			return err
		}
	}
	if _, err := drainReal(ctx, dir, "wal", fsys); err != nil {
		return err
	}
	err = log.Close(ctx)
	m.Flush(ctx)
	return err
}

func appendRows(ctx context.Context, log *wal.Log, rows int) (wal.Receipt, error) {
	ld := plog.NewLogs()
	records := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for range rows {
		records.AppendEmpty().Body().SetStr("row")
	}
	batch, err := otelarrow.NewEncoder().EncodeLogs(time.Now(), ld)
	if err != nil {
		return wal.Receipt{}, err
	}
	defer batch.Record.Release()
	enc, err := frame.NewEncoder(otelarrow.WALSchema(otelarrow.Logs))
	if err != nil {
		return wal.Receipt{}, err
	}
	body, err := enc.Append(nil, batch.Record)
	if err != nil {
		return wal.Receipt{}, err
	}
	return log.Append(ctx, wal.Request{
		Tenant: "default", Index: "events", Schema: otelarrow.WALSchema(otelarrow.Logs), Body: body, Rows: rows,
		MinTime: batch.MinTime, MaxTime: batch.MaxTime, Mode: wal.WaitFor,
	})
}

// drainReal drains the root that is called so below dir, twice: what the first pass marks the second one retires.
func drainReal(ctx context.Context, dir, root string, fsys vfs.FS) (sum drain.Report, err error) {
	l, err := openLake(ctx, dir)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for range 2 {
		report, err := drain.Once(ctx, drain.Options{
			FS: fsys, WAL: filepath.Join(dir, root), Lake: l, Retain: time.Nanosecond, RetainPartial: time.Nanosecond,
		})
		if err != nil {
			return sum, err
		}
		for lane, err := range report.Failures {
			return sum, fmt.Errorf("%s: %w", lane, err)
		}
		sum.Rows, sum.Duplicates, sum.Poisoned = sum.Rows+report.Rows, sum.Duplicates+report.Duplicates, sum.Poisoned+report.Poisoned
	}
	return sum, nil
}

func openLake(ctx context.Context, dir string) (*lake.Lake, error) {
	return lake.Open(ctx, lake.Options{Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse")})
}

// TestKill_mirrored_D8 kills a life with a mirror and a drain before each change of the real disk, log and bucket alike, and the next one
// before another: append, pin, seal, upload, confirm, unpin, claim, commit, mark, retire. A third life ends the work. Then every
// acknowledged row is in the table, each row once; the log is empty, no pin and no copy of an open segment is left, nothing is
// left of an upload, and a recovery of all that the bucket has adds no row. PIN-1, MIR-1, LAKE-1, RET-1, BND-1.
func TestKill_mirrored_D8(t *testing.T) {
	stride := 12 // a step costs a second; the rest is for `make soak`
	if os.Getenv("SIGLAKE_SOAK") != "" {
		stride = 1
	}
	dir := ""
	killfs.Walk{
		Work: func(dir string, fsys *killfs.FS, ack func(int)) error { return mirroredLife(dir, fsys, ack) },
		From: rand.IntN(stride), Stride: stride, Spread: 97,
		Fresh: func() string {
			require.NoError(t, os.RemoveAll(dir))
			dir = t.TempDir()
			return dir
		},
		Judge: func(k int, dir string, lives ...killfs.Life) {
			require.NoError(t, age(dir), "k=%d", k)
			var last killfs.Life
			require.NoError(t, mirroredLife(dir, vfs.OS(), func(n int) { last.Acked = append(last.Acked, n) }), "k=%d", k)
			rest(t, dir)
			judgeMirrored(t, k, dir, append(lives, last))
		},
	}.Run(t)
}

// age makes what dead uploads left old enough to be removed.
func age(dir string) error {
	return filepath.WalkDir(filepath.Join(dir, "bucket"), func(path string, _ os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) || err == nil && !strings.HasSuffix(path, ".tmp") {
			return nil
		}
		long := time.Now().Add(-2 * time.Hour)
		return errors.Join(err, os.Chtimes(path, long, long))
	})
}

// rest has a mirror sweep until no copy of an open segment is left, and for half a minute at most: what an earlier life
// copied goes with the first sweep after the confirmation, and the last life may have ended before that.
func rest(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	store, err := objstore.Open(ctx, "file://"+filepath.Join(dir, "bucket"), objstore.Options{})
	require.NoError(t, err)
	m, err := mirror.New(mirror.Options{Dir: filepath.Join(dir, "wal"), Store: store, SweepInterval: 10 * time.Millisecond})
	require.NoError(t, err)
	var run sync.WaitGroup
	run.Go(func() { m.Run(ctx) })
	for ctx.Err() == nil && len(filesIn(t, filepath.Join(dir, "bucket", "_active"), ".partial")) > 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	run.Wait()
}

func judgeMirrored(t *testing.T, k int, dir string, lives []killfs.Life) {
	t.Helper()
	require.Empty(t, filesIn(t, filepath.Join(dir, "wal", "default", "events"), ".arrow", ".partial", ".tmp"), "BND-1, PIN-1, RET-1 k=%d", k)
	found, rows, ids := map[int]int{}, map[string]int64{}, []string{}
	for _, name := range filesIn(t, filepath.Join(dir, "bucket"), ".arrow", ".partial", ".tmp") {
		require.True(t, strings.HasPrefix(name, "default/events/") && strings.HasSuffix(name, ".arrow"), "BND-1 k=%d: %s", k, name)
		body, err := os.ReadFile(filepath.Join(dir, "bucket", name))
		require.NoError(t, err)
		seg, err := frame.Decode(bytes.NewReader(body), int64(len(body)), frame.DecodeOptions{})
		require.NoError(t, err, "MIR-1 k=%d: %s", k, name)
		id, _, err := segment.ParseName(filepath.Base(name))
		require.NoError(t, err)
		require.NoError(t, id.CheckName(seg.Schema), "MIR-1 k=%d", k)
		for _, b := range seg.Batches {
			found[int(b.NumRows())-1]++
		}
		rows[id.String()] = seg.Rows
		ids = append(ids, id.String())
		seg.Release()
	}
	for n := range mirroredRequests {
		times := 0
		for _, life := range lives {
			if slices.Contains(life.Acked, n) {
				times++
			}
		}
		require.GreaterOrEqual(t, found[n], times, "ACK-1 k=%d: request %d was acknowledged in %d lives", k, n, times)
	}
	inTable := func() (total int64) {
		l, err := openLake(t.Context(), dir)
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		table, _, err := l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
		require.NoError(t, err)
		committed, err := table.Lookup(t.Context(), ids)
		require.NoError(t, err)
		require.Equal(t, rows, committed, "LAKE-1 k=%d: what has a copy is in the table, and nothing else", k)
		infos, err := l.Tables(t.Context())
		require.NoError(t, err)
		return infos[0].Rows
	}
	var want int64
	for _, n := range rows {
		want += n
	}
	require.Equal(t, want, inTable(), "LAKE-1 k=%d: each row once", k)

	store, err := objstore.Open(t.Context(), "file://"+filepath.Join(dir, "bucket"), objstore.Options{})
	require.NoError(t, err)
	rep, err := mirror.Restore(t.Context(), mirror.RestoreOptions{Dir: filepath.Join(dir, "again"), Store: store})
	require.NoError(t, err)
	require.Equal(t, [2]int{len(rows), 0}, [2]int{rep.Lanes[0].Restored, len(rep.Unreadable) + len(rep.Failed)}, "k=%d", k)
	report, err := drainReal(t.Context(), dir, "again", vfs.OS())
	require.NoError(t, err, "k=%d", k)
	require.Equal(t, drain.Report{Duplicates: want}, report, "LAKE-1 k=%d: a recovery of everything adds nothing", k)
	require.Equal(t, want, inTable(), "LAKE-1 k=%d", k)
}

// filesIn are the files below dir whose names end so, relative to it; none where it is not there.
func filesIn(t *testing.T, dir string, suffixes ...string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		rel, relErr := filepath.Rel(dir, path)
		if err = errors.Join(err, relErr); err == nil && !e.IsDir() && slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }) {
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	}))
	return names
}
