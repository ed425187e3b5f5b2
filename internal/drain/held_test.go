package drain

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// The name of drain.lock is removed in the middle of a commit, and another drain holds the next file of that name: the first one
// moves nothing more, says so, and stands by; it goes on when the other one ends. A segment is where the other one left it.
func TestRun_the_lock_is_removed_under_it(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vfs.OS(), filepath.Join(t.TempDir(), "wal"))
	show := w.gauges()
	lock := filepath.Join(w.dir, segment.DrainLockName)
	var other *held
	var took sync.Once
	w.tables.get("events").after = func([]lake.Segment) (err error) {
		took.Do(func() {
			if err = w.fs.Remove(lock); err == nil {
				other, err = hold(w.fs, w.dir, "another")
			}
		})
		return err
	}
	w.seal(spec{})
	var told atomic.Pointer[string]
	w.opt.Status = func(err error) {
		text := fmt.Sprint(err)
		told.Store(&text)
	}
	stop := w.start()
	eventually(t, func() bool {
		s := told.Load()
		return s != nil && *s != "<nil>" && other != nil && len(w.logs.FilterMessageSnippet("stands by").All()) > 0
	}, "lost")
	require.Equal(t, map[segment.State]int{segment.Processing: 1}, w.states("events"), "not the first one's any more")
	require.EqualValues(t, 1, show("siglake_compactor_locks_lost_total"))
	require.NoError(t, other.Close())
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 1 && *told.Load() == "<nil>" }, "it goes on")
	require.NoError(t, stop())
	w.accounted()
}

// A file that is gone, or another one, is no lock any more: no name changes through it.
func TestHeld_changes_no_name_once_lost(t *testing.T) {
	t.Parallel()
	for _, replaced := range []bool{false, true} {
		w := onDisk(t)
		root, h, err := holdRoot(w.fs, w.dir, "me")
		require.NoError(t, err)
		require.NoError(t, h.check())
		name := w.seal(spec{})
		require.NoError(t, w.fs.Remove(filepath.Join(w.dir, segment.DrainLockName)))
		if replaced {
			other, err := hold(w.fs, w.dir, "another")
			require.NoError(t, err)
			require.NoError(t, other.check())
		}
		l, err := root.Lane("default", "events")
		require.NoError(t, err)
		moved, err := l.Move(segment.Sealed, segment.Processing, []string{name})
		require.ErrorIs(t, err, errLockLost)
		require.Empty(t, moved)
		path := l.Path(segment.Sealed, name)
		require.ErrorIs(t, h.Remove(path), errLockLost)
		require.ErrorIs(t, h.Rename(path, path+".x"), errLockLost)
		require.Equal(t, map[segment.State]int{segment.Sealed: 1}, w.states("events"))
		require.NoError(t, h.Close())
	}
}

// A record that the next holder is about to publish is not written to by the last one, which makes no look at temporary files.
func TestHeld_leaves_the_temporary_file_of_the_next_holder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	last, err := hold(vfs.OS(), dir, "last")
	require.NoError(t, err)
	defer func() { require.NoError(t, last.Close()) }()
	require.NoError(t, vfs.OS().Remove(filepath.Join(dir, segment.DrainLockName)))
	next, err := hold(vfs.OS(), dir, "next")
	require.NoError(t, err)
	defer func() { require.NoError(t, next.Close()) }()
	record := filepath.Join(dir, "head")
	f, err := next.Create(vfs.TempName(record))
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("next"), 0)
	require.NoError(t, errors.Join(err, f.Close()))
	require.ErrorIs(t, vfs.WriteFile(last, record, []byte("last")), errLockLost)
	text, err := vfs.ReadFile(vfs.OS(), vfs.TempName(record))
	require.NoError(t, err)
	require.Equal(t, "next", string(text))
	require.NoError(t, vfs.WriteFile(next, record, []byte("next")))
}

// The same trouble with another file name in it each time is told once: who takes it for a new one begins to count anew how
// long it has lasted, and answers that all is well.
func TestRun_the_same_trouble_is_told_once(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	full := errors.New("no space left on device")
	var tries atomic.Int64
	w.tables.get("events").before = func(context.Context, []lake.Segment) error {
		return fmt.Errorf("write data/%d.parquet: %w", tries.Add(1), full)
	}
	var told atomic.Int64
	w.opt.Status = func(err error) {
		if err != nil {
			told.Add(1)
		}
	}
	w.seal(spec{})
	stop := w.start()
	eventually(t, func() bool { return tries.Load() > 3 }, "tried again")
	time.Sleep(50 * time.Millisecond) // ten looks more
	require.NoError(t, stop())
	require.EqualValues(t, 1, told.Load())
}

// A disk that fails for a moment, just when the lock is taken, ends nothing: the drain says so and begins.
func TestRun_the_root_is_not_read_once(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	disk := w.fs.(*simfs.FS)
	var reads atomic.Int64
	disk.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Open && filepath.Base(op.Name) == "siglake-wal.json" && reads.Add(1) == 2 {
			return syscall.EIO
		}
		return nil
	})
	told := make(chan error, 10)
	w.opt.Status = func(err error) { told <- err }
	stop := w.start()
	eventually(t, func() bool { return w.states("events")[segment.Committed] == 1 }, "commit")
	require.NoError(t, stop())
	require.ErrorIs(t, <-told, syscall.EIO)
	require.NoError(t, <-told)
	w.accounted()
}
