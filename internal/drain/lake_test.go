package drain

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// realWorld is a world on the real file system with a real lake beside it.
func realWorld(t *testing.T) (*world, *lake.Lake) {
	t.Helper()
	dir := t.TempDir()
	w := newWorld(t, vfs.OS(), filepath.Join(dir, "wal"))
	l, err := lake.Open(t.Context(), lake.Options{
		Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	w.opt.Lake = l
	return w, l
}

// rowsIn reads the Parquet files of a table and counts each (segment, row).
func rowsIn(t *testing.T, l *lake.Lake, name string) map[string]map[int64]int {
	t.Helper()
	plan, err := l.Plan(t.Context(), "siglake", name)
	require.NoError(t, err)
	rows := make(map[string]map[int64]int)
	for _, f := range plan.Files {
		countRows(t, f.Path, rows)
	}
	return rows
}

func countRows(t *testing.T, path string, rows map[string]map[int64]int) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := pqfile.NewParquetReader(f)
	require.NoError(t, err)
	fr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: 1024}, memory.DefaultAllocator)
	require.NoError(t, err)
	tbl, err := fr.ReadTable(t.Context())
	require.NoError(t, err)
	defer tbl.Release()
	tr := array.NewTableReader(tbl, 0)
	defer tr.Release()
	for tr.Next() {
		rec := tr.RecordBatch()
		id := rec.Column(rec.Schema().FieldIndices("segment_id")[0])
		row := rec.Column(rec.Schema().FieldIndices("segment_row")[0])
		for i := range int(rec.NumRows()) {
			key := id.ValueStr(i)
			if rows[key] == nil {
				rows[key] = make(map[int64]int)
			}
			rows[key][row.GetOneForMarshal(i).(int64)]++
		}
	}
	require.NoError(t, tr.Err())
}

// accountedIn is the oracle against a real table.
func (w *world) accountedIn(l *lake.Lake) {
	w.t.Helper()
	require.Equal(w.t, w.rows(), rowsIn(w.t, l, "events"))
}

// rows is how often each row must be in the table.
func (w *world) rows() map[string]map[int64]int {
	want := make(map[string]map[int64]int)
	for id, n := range w.want {
		want[id] = make(map[int64]int)
		for i := range n {
			want[id][int64(i)] = 1
		}
	}
	return want
}

// LAKE-1 end to end: segments of three signals, a running drain with a real catalog, rows once.
func TestRun_real_lake(t *testing.T) {
	t.Parallel()
	w, l := realWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, w.opt) }()
	for range 3 {
		w.seal(spec{rows: 50})
		w.seal(spec{index: "spans", signal: otelarrow.Traces})
	}
	eventually(t, func() bool {
		return w.states("events")[segment.Committed] == 3 && w.states("spans")[segment.Committed] == 3
	}, "commit")
	cancel()
	require.NoError(t, <-done)
	w.accountedIn(l)
	require.Len(t, rowsIn(t, l, "spans"), 3)
	report, err := Once(t.Context(), w.opt)
	require.NoError(t, err)
	require.Equal(t, Report{Lanes: 2}, report)
	w.accountedIn(l)
}

// A catalog that is away at the start: the drain waits, says so, and goes on when it is there.
func TestRun_a_lake_that_opens_late(t *testing.T) {
	t.Parallel()
	w, l := realWorld(t)
	dir := filepath.Dir(w.dir)
	w.opt.Lake = nil
	var away atomic.Bool
	away.Store(true)
	w.opt.OpenLake = func(ctx context.Context) (*lake.Lake, error) {
		if away.Load() {
			return nil, errors.New("disk not mounted")
		}
		return lake.Open(ctx, lake.Options{Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse")})
	}
	told := make(chan error, 100)
	w.opt.Status = func(err error) { told <- err }
	w.seal(spec{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, w.opt) }()
	require.ErrorContains(t, <-told, "open the lake: disk not mounted")
	away.Store(false)
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 1 }, "commit")
	cancel()
	require.NoError(t, <-done)
	w.accountedIn(l)
}

// deadFS is the real file system until the process dies: every operation after the k-th fails.
type deadFS struct {
	vfs.FS
	left atomic.Int64
}

var errDead = errors.New("the process is dead")

func (d *deadFS) alive() error {
	if d.left.Add(-1) < 0 {
		return errDead
	}
	return nil
}

func alive[T any](d *deadFS, op func() (T, error)) (T, error) {
	if err := d.alive(); err != nil {
		var zero T
		return zero, err
	}
	return op()
}

func (d *deadFS) file(op func() (vfs.File, error)) (vfs.File, error) {
	f, err := alive(d, op)
	if err != nil {
		return nil, err
	}
	return &deadFile{File: f, d: d}, nil
}

func (d *deadFS) Create(name string) (vfs.File, error) {
	return d.file(func() (vfs.File, error) { return d.FS.Create(name) })
}

func (d *deadFS) Open(name string) (vfs.File, error) {
	return d.file(func() (vfs.File, error) { return d.FS.Open(name) })
}

func (d *deadFS) OpenRW(name string) (vfs.File, error) {
	return d.file(func() (vfs.File, error) { return d.FS.OpenRW(name) })
}

func (d *deadFS) Link(oldname, newname string) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.FS.Link(oldname, newname)
}

func (d *deadFS) Rename(oldname, newname string) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.FS.Rename(oldname, newname)
}

func (d *deadFS) Remove(name string) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.FS.Remove(name)
}

func (d *deadFS) List(dir string) ([]vfs.Entry, error) {
	return alive(d, func() ([]vfs.Entry, error) { return d.FS.List(dir) })
}

func (d *deadFS) Stat(name string) (vfs.Info, error) {
	return alive(d, func() (vfs.Info, error) { return d.FS.Stat(name) })
}

func (d *deadFS) Mkdir(dir string) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.FS.Mkdir(dir)
}

func (d *deadFS) MkdirAll(dir string) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.FS.MkdirAll(dir)
}

func (d *deadFS) SyncDir(dir string) error {
	if err := d.alive(); err != nil {
		return err
	}
	return d.FS.SyncDir(dir)
}

func (d *deadFS) Lock(name, text string) (io.Closer, error) {
	return alive(d, func() (io.Closer, error) { return d.FS.Lock(name, text) })
}

// deadFile fails what changes the file; reading is over with the opening.
type deadFile struct {
	vfs.File
	d *deadFS
}

func (f *deadFile) Writev(bufs [][]byte) (int64, error) {
	return alive(f.d, func() (int64, error) { return f.File.Writev(bufs) })
}

func (f *deadFile) Sync() error {
	if err := f.d.alive(); err != nil {
		return err
	}
	return f.File.Sync()
}

// LAKE-1 on the real thing: the process dies before operation k of a drain; the next one finishes. Every fifth k;
// TestSweep_power_loss_A6 takes them all.
func TestSweep_real_lake(t *testing.T) {
	t.Parallel()
	w, l := realWorld(t)
	w.opt.Retain = 1 // what is proved leaves at once, so that every round starts from an empty log
	cuts := 0
	for k := 0; ; k += 5 * stride() {
		w.seal(spec{state: segment.Processing})
		w.seal(spec{})
		w.seal(spec{rows: 5})
		dead := &deadFS{FS: vfs.OS()}
		dead.left.Store(int64(k))
		opt := w.opt
		opt.FS = dead
		_, err := Once(t.Context(), opt) // dies, but for the last time
		if dead.left.Load() >= 0 {
			require.NoError(t, err)
			break
		}
		cuts++
		report, err := Once(t.Context(), w.opt)
		require.NoError(t, err)
		require.Empty(t, report.Failures)
		require.Empty(t, w.states("events"))
	}
	require.Greater(t, cuts, 12/stride())
	w.accountedIn(l)
}
