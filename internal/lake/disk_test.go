package lake

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// spyDisk records what happens to the disk, and stops doing anything after a number of operations.
type spyDisk struct {
	osDisk

	mu   sync.Mutex
	log  []string
	ops  int
	stop int // 0: never
	fail func(op, path string) error
}

func (d *spyDisk) do(op, path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ops++
	if d.stop > 0 && d.ops > d.stop {
		return fmt.Errorf("%s %s: %w", op, path, errInjected)
	}
	if d.fail != nil {
		if err := d.fail(op, path); err != nil {
			return err
		}
	}
	d.log = append(d.log, op+" "+path)
	return nil
}

func (d *spyDisk) create(path string) (diskFile, error) {
	if err := d.do("create", path); err != nil {
		return nil, err
	}
	f, err := d.osDisk.create(path)
	if err != nil {
		return nil, err
	}
	return &spyFile{diskFile: f, d: d, path: path}, nil
}

func (d *spyDisk) mkdir(path string) error {
	if err := d.do("mkdir", path); err != nil {
		return err
	}
	return d.osDisk.mkdir(path)
}

func (d *spyDisk) syncDir(path string) error {
	if err := d.do("syncdir", path); err != nil {
		return err
	}
	return d.osDisk.syncDir(path)
}

func (d *spyDisk) remove(path string) error {
	if err := d.do("remove", path); err != nil {
		return err
	}
	return d.osDisk.remove(path)
}

type spyFile struct {
	diskFile
	d    *spyDisk
	path string
}

func (f *spyFile) Write(p []byte) (int, error) {
	if err := f.d.do("write", f.path); err != nil {
		return 0, err
	}
	return f.diskFile.Write(p)
}

func (f *spyFile) Sync() error {
	if err := f.d.do("sync", f.path); err != nil {
		return err
	}
	return f.diskFile.Sync()
}

// spied registers a scheme of its own for the disk, for the process has only one "file".
func spied(tb testing.TB, d *spyDisk) hooks {
	tb.Helper()
	scheme := fmt.Sprintf("spy%d", spies.Add(1))
	own := newSyncIO(d)
	iceio.Register(scheme, func(context.Context, *url.URL, map[string]string) (iceio.IO, error) { return own, nil })
	tb.Cleanup(func() { iceio.Unregister(scheme) })
	return hooks{scheme: scheme}
}

var spies atomic.Int64

// G4: when the catalog learns of a file, its bytes, its name and the names of its directories are on disk.
func TestCommit_syncs_every_file_before_the_catalog_knows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := &spyDisk{}
	h := spied(t, d)
	commits := 0
	f := &faultyCatalog{}
	h.wrap = faults(f).wrap
	l := lakeAt(t, dir, h)
	tbl := events(t, l)
	// Two days, so two files. The catalog's own step writes metadata.json and then changes the pointer, so what is
	// checked after it covers that file too.
	check := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		commits++
		requireSynced(t, d.log, filepath.Join(dir, "warehouse"))
	}
	f.answers = []answer{after(check)}
	rows := append(rowsAt(day0, 3), rowsAt(day0.Add(24*time.Hour), 3)...)
	_, err := tbl.Commit(t.Context(), []Segment{segment(t, testID(t, time.Now(), 1), rows)})
	require.NoError(t, err)
	require.Equal(t, 1, commits)
	check()
	kinds := map[string]int{}
	for _, e := range d.log {
		if path, ok := strings.CutPrefix(e, "create "); ok {
			base := filepath.Base(path)
			switch {
			case strings.HasSuffix(base, ".parquet"):
				kinds["parquet"]++
			case strings.HasPrefix(base, "snap-"):
				kinds["list"]++
			case strings.HasSuffix(base, ".avro"):
				kinds["manifest"]++
			case strings.HasSuffix(base, ".metadata.json"):
				kinds["metadata"]++
			}
		}
	}
	require.Equal(t, map[string]int{"parquet": 2, "list": 1, "manifest": 1, "metadata": 2}, kinds)
}

// requireSynced checks a record: each file created was synced after its last write, then its directory, and each
// directory made was made durable in the one above it.
func requireSynced(tb testing.TB, log []string, root string) {
	tb.Helper()
	last := func(e string) int {
		for i, l := range slices.Backward(log) {
			if l == e {
				return i
			}
		}
		return -1
	}
	for _, e := range log {
		op, path, _ := strings.Cut(e, " ")
		switch op {
		case "create":
			require.Greater(tb, last("sync "+path), last("write "+path), "%s", path)
			require.Greater(tb, last("syncdir "+filepath.Dir(path)), last("sync "+path), "%s", path)
		case "mkdir":
			if strings.HasPrefix(path, root) {
				require.Greater(tb, last("syncdir "+filepath.Dir(path)), slices.Index(log, e), "%s", path)
			}
		}
	}
}

// stops are the steps to stop at, of so many and behind the last. The race detector's run takes one in five: the steps are one
// goroutine's.
func stops(count int) (out []int) {
	stride := 1
	if testing.Short() {
		stride = 5
	}
	for stop := 0; stop <= count; stop += stride {
		out = append(out, stop)
	}
	return out
}

// LAKE-1: the disk or the process may stop at any step; whoever comes next commits each row exactly once.
func TestCommit_survives_a_stop_at_every_step(t *testing.T) {
	t.Parallel()
	// How many steps are there? Count them once.
	count := func() int {
		d := &spyDisk{}
		l := lakeAt(t, t.TempDir(), spied(t, d))
		tbl := events(t, l)
		before := d.ops
		_, err := tbl.Commit(t.Context(), stopSegments(t))
		require.NoError(t, err)
		return d.ops - before
	}()
	require.Greater(t, count, 12)
	for _, stop := range stops(count) {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := &spyDisk{}
			h := spied(t, d)
			l := lakeAt(t, dir, h)
			tbl := events(t, l)
			segs := stopSegments(t)
			d.stop = d.ops + stop
			if stop == 0 {
				d.stop = 1 // 0 would mean never
			}
			out, err := tbl.Commit(t.Context(), segs)
			if err == nil { // the last steps only tidy up
				require.Equal(t, committed(segs...), out.Committed)
			}
			// Another process, the same segments; the first one's memory is gone.
			next := lakeAt(t, dir, hooks{scheme: h.scheme})
			d.mu.Lock()
			d.stop = 0
			d.mu.Unlock()
			for i := range segs {
				segs[i].Doubtful = true
			}
			again, err := events(t, next).Commit(t.Context(), segs)
			require.NoError(t, err)
			require.Equal(t, committed(segs...), again.Committed)
			requireExactly(t, next, segs...)
			require.Equal(t, int64(7), out.RowsWritten+again.RowsWritten)
		})
	}
}

func stopSegments(tb testing.TB) []Segment {
	tb.Helper()
	rows := append(rowsAt(day0, 2), rowsAt(day0.Add(24*time.Hour), 2)...)
	return []Segment{segment(tb, testID(tb, time.Now(), 1), rows), newSegment(tb, 2, 3)}
}

// Files of a commit that no catalog heard of are removed at once; nothing else ever is.
func TestCommit_leaves_no_files_behind_when_writing_fails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ op, suffix string }{
		{"create", ".parquet"}, {"write", ".parquet"}, {"sync", ".parquet"}, {"create", ".avro"}, {"sync", ".avro"},
	} {
		t.Run(tc.op+tc.suffix, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := &spyDisk{}
			l := lakeAt(t, dir, spied(t, d))
			tbl := events(t, l)
			d.fail = func(op, path string) error {
				// The second data file, so that there is a first one to remove.
				if op == tc.op && strings.HasSuffix(path, tc.suffix) && (tc.suffix == ".avro" || strings.HasSuffix(path, "-00001.parquet")) {
					return errInjected
				}
				return nil
			}
			out, err := tbl.Commit(t.Context(), stopSegments(t))
			require.ErrorIs(t, err, errInjected)
			require.Zero(t, out.RowsWritten)
			require.Empty(t, filesUnder(t, dir+"/warehouse/siglake.db/events/data", ".parquet"))
		})
	}
}

// A directory that somebody removed is made, and made durable, again.
func TestSyncIO_a_removed_directory_is_made_again(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	d := &spyDisk{}
	s := newSyncIO(d)
	require.NoError(t, s.WriteFile(filepath.Join(dir, "x"), []byte("1")))
	require.NoError(t, d.osDisk.remove(filepath.Join(dir, "x")))
	require.NoError(t, d.osDisk.remove(dir))
	d.log = nil
	require.NoError(t, s.WriteFile(filepath.Join(dir, "x"), []byte("2")))
	requireSynced(t, d.log, filepath.Dir(dir))
	require.Contains(t, d.log, "mkdir "+dir)
	b, err := s.ReadFile("file://" + filepath.Join(dir, "x"))
	require.NoError(t, err)
	require.Equal(t, "2", string(b))
}

// A failed sync is never followed by a success, and the name of such a file is not made durable.
func TestSyncIO_a_failed_sync_is_an_error(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"sync", "syncdir"} {
		d := &spyDisk{}
		s := newSyncIO(d)
		path := filepath.Join(t.TempDir(), "x")
		w, err := s.Create(path)
		require.NoError(t, err)
		_, err = w.Write([]byte("1"))
		require.NoError(t, err)
		d.fail = func(o, _ string) error {
			if o == op {
				return errInjected
			}
			return nil
		}
		require.ErrorIs(t, w.Close(), errInjected)
	}
}

// LOUD-1: a table whose metadata file is damaged is an error for it and not for the others.
func TestTables_a_broken_table_hides_no_other(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	events(t, l)
	broken, _, err := l.Ensure(t.Context(), "broken", "events", 0)
	require.NoError(t, err)
	_, metadata := broken.Head()
	require.NoError(t, newSyncIO(osDisk{}).WriteFile(metadata, []byte("{")))
	forget(l)
	infos, err := l.Tables(t.Context())
	require.ErrorContains(t, err, "tenant_broken.events")
	require.Len(t, infos, 1)
	_, err = l.Plan(t.Context(), "siglake", "nothing")
	require.ErrorIs(t, err, ErrNoTable)
	_, err = l.open(t.Context(), table.Identifier{"nowhere", "nothing"})
	require.ErrorIs(t, err, ErrNoTable)
}
