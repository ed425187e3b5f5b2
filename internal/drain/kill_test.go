package drain

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/killfs"
)

// TestKill_exact kills a drain before each change it makes to a real log, with a real catalog beside it, and its successor
// before another; then a third one ends the work: claim, commit, mark, retire. Deaths inside a commit are the testbed's,
// which kills on the files that a commit makes. LAKE-1, ONE-1, RET-1, BND-1.
func TestKill_exact(t *testing.T) {
	// Not parallel: between a fork and its exec the child has copies of the locks of tests beside it.
	stride := 3 // a life costs 0.3 s, most of it the start-up of iceberg-go; the rest is for `make soak`
	if os.Getenv("SIGLAKE_SOAK") != "" {
		stride = 1
	}
	ready, dir := "", ""
	want := map[string]map[int64]int{}
	killfs.Walk{
		Work: func(dir string, fsys *killfs.FS, _ func(int)) error {
			drainOnce(t, dir, fsys)
			return nil
		},
		From: rand.IntN(stride), Stride: stride, Spread: 43,
		Fresh: func() string {
			if ready == "" {
				ready = t.TempDir()
				w := newWorld(t, vfs.OS(), filepath.Join(ready, "wal"))
				w.seal(spec{state: segment.Processing})
				w.seal(spec{partial: true})
				w.seal(spec{})
				w.seal(spec{})
				want = w.rows()
			}
			require.NoError(t, os.RemoveAll(dir))
			dir = t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(ready)))
			return dir
		},
		Judge: func(k int, dir string, _ ...killfs.Life) {
			drainOnce(t, dir, vfs.OS()) // what it marks is retired by the next one
			require.Equal(t, want, drainOnce(t, dir, vfs.OS()), "LAKE-1 k=%d", k)
			root, err := segment.Open(vfs.OS(), filepath.Join(dir, "wal"))
			require.NoError(t, err)
			w := &world{t: t, fs: vfs.OS(), root: root}
			require.Empty(t, w.states("events"), "ONE-1, RET-1, BND-1 k=%d: all is retired", k)
			require.Empty(t, w.strays(), "k=%d", k)
		},
	}.Run(t)
}

// drainOnce is a drain's life, and returns the rows of the table.
func drainOnce(t *testing.T, dir string, fsys vfs.FS) map[string]map[int64]int {
	t.Helper()
	l, err := lake.Open(t.Context(), lake.Options{
		Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse"),
	})
	require.NoError(t, err)
	report, err := Once(context.Background(), Options{
		FS: fsys, WAL: filepath.Join(dir, "wal"), Lake: l, Retain: time.Nanosecond, RetainPartial: time.Nanosecond,
	})
	require.NoError(t, err)
	require.Empty(t, report.Failures)
	rows := rowsIn(t, l, "events")
	require.NoError(t, l.Close())
	return rows
}
