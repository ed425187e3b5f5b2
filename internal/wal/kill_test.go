package wal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/killfs"
)

// step is a request of some rows to a lane, or the wish to seal it.
type step struct {
	index string
	rows  int
	mode  Mode
	seal  bool
}

// script fills segments under either mode, seals on request and by Close, and goes from lane to lane.
var script = []step{
	{index: "events", rows: 2, mode: WaitFor},
	{index: "events", rows: 1, mode: Auto},
	{index: "events", rows: 4, mode: WaitFor}, // full
	{index: "events", rows: 2, mode: WaitFor}, // the segment after this one is made ahead
	{index: "spans", rows: 1, mode: Auto},
	{index: "events", rows: 5, mode: WaitFor}, // full
	{index: "events", rows: 1, mode: Auto},
	{index: "events", seal: true},
	{index: "spans", rows: 6, mode: Auto}, // full and not synced
	{index: "spans", rows: 3, mode: WaitFor},
	{index: "events", rows: 3, mode: Auto},
}

// TestKill_exact kills a writer before each change it makes to a real disk, and its successor, which recovers and writes
// too, before another; then a third one recovers. ACK-1 (both modes: a kill takes nothing from a disk), ACK-2, ORD-1, ONE-1.
func TestKill_exact(t *testing.T) {
	// Not parallel: between a fork and its exec the child has copies of the locks of tests beside it.
	work := func(dir string, fsys *killfs.FS, ack func(int)) error {
		opt := options(fsys, dir)
		opt.MaxEvents = 6
		l := open(t, opt)
		for n, s := range script {
			if s.seal {
				require.NoError(t, l.Seal(t.Context(), "t", s.index))
				continue
			}
			r := request(t, s.mode, slices.Repeat([]int64{int64(n)}, s.rows)...)
			r.Index = s.index
			_, err := l.Append(t.Context(), r)
			require.NoError(t, err)
			ack(n)
		}
		return l.Close(t.Context())
	}
	var dir string
	killfs.Walk{
		Work: work, Stride: 1, Spread: 61,
		Fresh: func() string {
			require.NoError(t, os.RemoveAll(dir))
			dir = filepath.Join(t.TempDir(), "wal")
			return dir
		},
		Judge: func(k int, dir string, lives ...killfs.Life) {
			closeLog(t, open(t, options(vfs.OS(), dir)))
			checkLives(t, k, dir, lives)
		},
	}.Run(t)
}

// checkLives holds a recovered root against what each life was told.
func checkLives(t *testing.T, k int, dir string, lives []killfs.Life) {
	t.Helper()
	type writer struct {
		lane string
		id   [6]byte
	}
	rows, last, once := map[writer][]int64{}, map[writer]uint64{}, map[segment.ID]bool{}
	for _, s := range scan(t, vfs.OS(), dir) {
		require.False(t, once[s.id], "ONE-1 k=%d %s", k, s.id)
		once[s.id] = true
		require.Equal(t, segment.Sealed, s.state, "ONE-1 k=%d %s", k, s.id)
		w := writer{s.lane, s.id.Writer}
		last[w]++
		require.Equal(t, last[w], s.id.Seq, "ORD-1 k=%d: the numbers have a gap", k)
		rows[w] = append(rows[w], s.ids...)
	}
	for _, index := range []string{"events", "spans"} {
		for _, st := range []segment.State{segment.Active, segment.Poison} {
			require.Empty(t, existing(t, filepath.Join(dir, "t", index, string(st))), "ONE-1 k=%d", k)
		}
	}
	found := map[int]int{} // lives of which a request is there
	for w, ids := range rows {
		for n, s := range script {
			if "t/"+s.index != w.lane || s.seal || len(ids) == 0 {
				continue
			}
			require.GreaterOrEqual(t, len(ids), s.rows, "ACK-2 k=%d: request %d is torn", k, n)
			require.Equal(t, slices.Repeat([]int64{int64(n)}, s.rows), ids[:s.rows], "ORD-1 k=%d", k)
			ids = ids[s.rows:]
			found[n]++
		}
		require.Empty(t, ids, "ACK-2 k=%d: rows that nobody sent", k)
	}
	for n := range script {
		times := 0
		for _, one := range lives {
			if slices.Contains(one.Acked, n) {
				times++
			}
		}
		require.GreaterOrEqual(t, found[n], times, "ACK-1 k=%d: request %d was acknowledged in %d lives", k, n, times)
	}
}

// existing are the names in a directory, none if it is not there.
func existing(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
