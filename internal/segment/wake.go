package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Wake asks the drain to take the lane's sealed segments now and not to wait for more of them. It sets the time of
// drain.wake in the lane, which says what is asked for, and then of the one in the root, which is where the drain looks.
// now has to differ from the last one. Not durable, and nothing depends on it: a drain that was not woken comes by itself.
// Idempotent.
func (l Lane) Wake(now time.Time) error {
	for _, dir := range []string{l.dir, l.root.dir} {
		if err := touch(l.root.fs, filepath.Join(dir, drainWakeName), now); err != nil {
			return fmt.Errorf("wake the drain of lane %s: %w", l.Key(), err)
		}
	}
	return nil
}

func touch(fsys vfs.FS, name string, now time.Time) error {
	f, err := fsys.OpenRW(name)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = fsys.Create(name); errors.Is(err, fs.ErrExist) {
			f, err = fsys.OpenRW(name) // somebody else has made it
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Touch(now), f.Close())
}

// Woken is when the lane's drain was last asked to come; zero: never.
func (l Lane) Woken() (time.Time, error) { return touched(l.root.fs, l.dir) }

// Woken is when the drain of any lane was last asked to come; zero: never.
func (r *Root) Woken() (time.Time, error) { return touched(r.fs, r.dir) }

func touched(fsys vfs.FS, dir string) (time.Time, error) {
	info, err := fsys.Stat(filepath.Join(dir, drainWakeName))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	return info.ModTime, err
}
