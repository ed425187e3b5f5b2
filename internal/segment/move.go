package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// ErrConflict says that the destination holds another file of that name. Nothing was changed; Resolve decides.
var ErrConflict = errors.New("segment: another file has the name")

// Move takes names from one state to another: link all, sync the destination, unlink all, sync the source.
// Names from stale/ lose the UUID before them. Use MoveStale to move into stale/.
//
// Durable when it returns nil, and not before. A crash leaves each segment under one name or under both, never
// under none. Idempotent: a link that is there already and is the same file is taken as ours. Safe beside other
// Moves to later states; a Move to an earlier one needs drain.lock (package comment).
//
//	moved   the names this call unlinked from the source, in the order given: of several calls for one name
//	        exactly one reports it. Also set beside an error; then what is moved may not be durable yet, and
//	        calling again finishes
//	errors  ErrConflict for a name whose destination is another file; the other names are moved all the same.
//	        A source that is gone is a lost race: not moved, no error
//	holds   ONE-1, LOUD-1
func (l Lane) Move(from, to State, names []string) (moved []string, err error) {
	b := make([]rename, len(names))
	for i, name := range names {
		b[i] = l.rename(from, name, to, path.Base(name))
	}
	done, err := moveAll(l.root.fs, b)
	for _, i := range done {
		moved = append(moved, names[i])
	}
	if err != nil {
		return moved, fmt.Errorf("move %s to %s in lane %s: %w", from, to, l.Key(), err)
	}
	return moved, nil
}

// MoveAs is Move for one segment that changes its name. It returns false when the race for it was lost.
func (l Lane) MoveAs(from State, oldName string, to State, newName string) (bool, error) {
	done, err := moveAll(l.root.fs, []rename{l.rename(from, oldName, to, newName)})
	if err != nil {
		return len(done) > 0, fmt.Errorf("move %s/%s to %s in lane %s: %w", from, oldName, to, l.Key(), err)
	}
	return len(done) > 0, nil
}

// Seal moves active/X.arrow.partial to sealed/X.arrow. The caller has synced the file. As Move otherwise. It returns
// false when the name was gone from active/: an earlier call had sealed it, or somebody else has.
func (l Lane) Seal(name string) (bool, error) {
	id, partial, err := ParseName(name)
	if err == nil && !partial {
		err = fmt.Errorf("%w: %q is not a partial", ErrNotID, name)
	}
	if err != nil {
		return false, fmt.Errorf("seal: %w", err)
	}
	return l.MoveAs(Active, name, Sealed, id.FileName())
}

func (l Lane) rename(from State, oldName string, to State, newName string) rename {
	return rename{src: l.Path(from, oldName), dst: l.Path(to, newName)}
}

// rename is one name on its way: the paths, and what has been done.
type rename struct {
	src, dst string
	renamed  bool // links are refused here: the source is gone already
}

// moveAll returns the indexes of what this call unlinked from the source.
func moveAll(fsys vfs.FS, batch []rename) (moved []int, err error) {
	if len(batch) == 0 {
		return nil, nil
	}
	linked, linkErr := linkAll(fsys, batch)
	if err := syncDirs(fsys, batch, linked, func(r rename) string { return r.dst }); err != nil {
		return nil, errors.Join(linkErr, err) // both names stay
	}
	var errs []error
	for _, i := range linked {
		switch err := unlink(fsys, batch[i]); {
		case err == nil:
			moved = append(moved, i)
		case !errors.Is(err, fs.ErrNotExist): // gone: somebody else's unlink won
			errs = append(errs, err)
		}
	}
	// Also for names whose source was gone: an earlier call may have unlinked and not synced.
	all := make([]int, len(batch))
	for i := range all {
		all[i] = i
	}
	errs = append(errs, syncDirs(fsys, batch, all, func(r rename) string { return r.src }))
	return moved, errors.Join(linkErr, errors.Join(errs...))
}

func unlink(fsys vfs.FS, r rename) error {
	if r.renamed {
		return nil
	}
	return fsys.Remove(r.src)
}

// linkAll gives each segment its second name and returns the indexes of those that have it. A conflict leaves
// that name alone; any other error ends the linking, and the caller finishes what is linked.
func linkAll(fsys vfs.FS, batch []rename) (linked []int, err error) {
	var errs []error
	for i := range batch {
		ok, err := link(fsys, &batch[i])
		if ok {
			linked = append(linked, i)
		}
		if err != nil {
			errs = append(errs, err)
			if !errors.Is(err, ErrConflict) {
				break
			}
		}
	}
	return linked, errors.Join(errs...)
}

func link(fsys vfs.FS, r *rename) (bool, error) {
	err := fsys.Link(r.src, r.dst)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrExist):
		return sameFile(fsys, r)
	case errors.Is(err, fs.ErrNotExist):
		return false, lostRace(fsys, r.src, err)
	case vfs.NoLinks(err):
		return renameInstead(fsys, r)
	}
	return false, err
}

// lostRace returns nil if the source is gone, else the error: then it is the destination's directory that is missing.
func lostRace(fsys vfs.FS, src string, err error) error {
	if _, serr := fsys.Stat(src); errors.Is(serr, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sameFile tells whether source and destination, which exists, are one file.
func sameFile(fsys vfs.FS, r *rename) (bool, error) {
	src, err := fsys.Stat(r.src)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	dst, err := fsys.Stat(r.dst)
	if errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("link %s: the destination came and went", r.dst) // two movers; calling again is right
	}
	if err != nil {
		return false, err
	}
	if src.Inode != dst.Inode {
		return false, fmt.Errorf("%w: %s and %s", ErrConflict, r.src, r.dst)
	}
	return true, nil
}

// renameInstead serves volumes that refuse hard links. On a disk that does not order its directories a power
// loss between the two syncs can lose both names; siglake doctor reports such volumes.
func renameInstead(fsys vfs.FS, r *rename) (bool, error) {
	switch _, err := fsys.Stat(r.dst); {
	case err == nil:
		return sameFile(fsys, r)
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	err := fsys.Rename(r.src, r.dst)
	if errors.Is(err, fs.ErrNotExist) {
		return false, lostRace(fsys, r.src, err)
	}
	r.renamed = err == nil
	return r.renamed, err
}

// syncDirs syncs the directory of one side of each chosen name, each directory once, in order.
func syncDirs(fsys vfs.FS, batch []rename, chosen []int, side func(rename) string) error {
	var dirs []string
	for _, i := range chosen {
		if d := filepath.Dir(side(batch[i])); !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	for _, d := range dirs {
		if err := fsys.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}
