package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// salvagedSuffix marks, in poison/, the damaged original of a segment whose sound beginning went back to sealed/. It is
// no copy of the segment: List, Copies, Census and Resolve's comparisons leave it out.
const salvagedSuffix = ".salvaged"

// KeptName is what the original of a salvaged segment is called, by its name in poison/.
func KeptName(name string) string { return name + salvagedSuffix }

// originalOf returns the name a kept original had in poison/ before, and whose it is.
func originalOf(file string) (first string, e Entry, ok bool) {
	first, ok = strings.CutSuffix(file, salvagedSuffix)
	if ok {
		e, ok = parseEntry(Poison, first)
	}
	return first, e, ok
}

// isKept tells whether a file is such an original.
func isKept(st State, file string) bool {
	_, _, ok := originalOf(file)
	return ok && st == Poison
}

// Copies returns every name of each segment in the lane, as state/name, pins and kept originals apart. Nothing but a writer
// may run beside it, or the caller takes a name for a copy that has moved on.
func (l Lane) Copies() (map[ID][]string, error) {
	out := map[ID][]string{}
	// In the order in which segments pass through them, sealed/ once more at the end, so that none is carried past us.
	for _, st := range append(ranked(), Sealed) {
		entries, _, err := l.List(st)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if name := string(st) + "/" + e.Name; !slices.Contains(out[e.ID], name) {
				out[e.ID] = append(out[e.ID], name)
			}
		}
	}
	return out, nil
}

// Kept returns the names of the originals of salvaged segments in poison/.
func (l Lane) Kept() ([]string, error) {
	entries, err := list(l.root.fs, l.Dir(Poison))
	if err != nil {
		return nil, fmt.Errorf("list %s of lane %s: %w", Poison, l.Key(), err)
	}
	var kept []string
	for _, e := range entries {
		if isKept(Poison, e.Name) && !e.IsDir {
			kept = append(kept, e.Name)
		}
	}
	return kept, nil
}

// Requeue takes a segment from poison/ back to sealed/, under the name it has there, and removes its note. The caller
// has read it whole and holds drain.lock, and the segment has no other copy.
//
// Durable when it returns nil, bytes and name. Idempotent. A crash leaves both names, of which Resolve keeps the one in
// poison/, or a note without its segment, which it removes. It returns false when the name was gone from poison/.
//
//	errors  ErrConflict when sealed/ has another file of that name
//	holds   ONE-1, LOUD-1
func (l Lane) Requeue(name string) (bool, error) {
	e, ok := parseEntry(Poison, name)
	if !ok {
		return false, fmt.Errorf("requeue: %w: %.80q", ErrNotID, name)
	}
	// Somebody may have put good bytes in the place of bad ones and not synced them.
	if err := syncFile(l.root.fs, l.Path(Poison, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("requeue %s of lane %s: %w", name, l.Key(), err)
	}
	moved, err := l.MoveAs(Poison, name, Sealed, e.ID.FileName())
	if err != nil {
		return moved, err
	}
	if err := l.dropPoison(name + noteSuffix); err != nil {
		return moved, fmt.Errorf("requeue %s of lane %s: %w", name, l.Key(), err)
	}
	return moved, nil
}

// Salvage puts file, the sound beginning of a damaged segment in poison/, into sealed/ under its id, and keeps the
// original as poison/<name>.salvaged with a note of its own. The caller holds drain.lock, and the segment has no other
// copy.
//
// Durable when it returns nil. Idempotent. In order: the note of the original, its further name, the new segment, and
// only then the first name goes. A crash leaves both names of the original; by whether the new segment is there
// Resolve finishes or undoes it. So the id has a segment at any moment, and the damaged bytes a name. It returns false
// when the name was gone from poison/.
//
//	errors  ErrConflict when sealed/ has another file of that name; ErrKept when poison/ has the original of an earlier
//	        salvage. Nothing was changed then, but that the original may have both names
//	holds   ONE-1, LOUD-1
func (l Lane) Salvage(name string, file []byte, note Note) (bool, error) {
	done, err := l.salvage(name, file, note)
	if err != nil {
		return false, fmt.Errorf("salvage %s of lane %s: %w", name, l.Key(), err)
	}
	return done, nil
}

// ErrKept says that the original of an earlier salvage has the place.
var ErrKept = errors.New("segment: the original of an earlier salvage is still there")

func (l Lane) salvage(name string, file []byte, note Note) (bool, error) {
	e, ok := parseEntry(Poison, name)
	if !ok {
		return false, fmt.Errorf("%w: %.80q", ErrNotID, name)
	}
	fsys := l.root.fs
	original := rename{src: l.Path(Poison, name), dst: l.Path(Poison, KeptName(name))}
	switch _, err := fsys.Stat(original.src); {
	case errors.Is(err, fs.ErrNotExist): // an earlier attempt has come so far
		return false, l.dropPoison(name, name+noteSuffix)
	case err != nil:
		return false, err
	}
	if err := l.mayKeep(&original); err != nil {
		return false, err
	}
	if err := l.writeNote(KeptName(name), note); err != nil {
		return false, err
	}
	linked, err := l.keep(&original)
	if err != nil {
		return false, err
	}
	if err := publish(fsys, l.Path(Sealed, e.ID.FileName()), file); err != nil {
		return false, err
	}
	if !linked {
		if err := fsys.Rename(original.src, original.dst); err != nil {
			return false, err
		}
	}
	return true, l.dropPoison(name, name+noteSuffix)
}

// mayKeep looks whether the place for an original is free, or taken by an earlier attempt.
func (l Lane) mayKeep(r *rename) error {
	if _, err := l.root.fs.Stat(r.dst); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	_, err := sameFile(l.root.fs, r)
	if errors.Is(err, ErrConflict) {
		return fmt.Errorf("%w: move %s and its note out of the log first", ErrKept, r.dst)
	}
	return err
}

// keep gives the damaged file its further name. False: the volume refuses links, see renameInstead.
func (l Lane) keep(r *rename) (bool, error) {
	err := l.root.fs.Link(r.src, r.dst)
	switch {
	case err == nil, errors.Is(err, fs.ErrExist): // an earlier attempt's
		return true, l.root.fs.SyncDir(l.Dir(Poison))
	case vfs.NoLinks(err):
		return false, nil
	}
	return false, err
}

// publish makes a new segment, unless an earlier attempt has made the same. Durable when it returns nil.
func publish(fsys vfs.FS, name string, file []byte) error {
	err := vfs.WriteNew(fsys, name, file)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	same, err := holdsBytes(fsys, name, file)
	if err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("%w: %s", ErrConflict, name)
	}
	if err := syncFile(fsys, name); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// dropPoison removes names from poison/ that nobody needs any more. Durable when it returns nil. Idempotent.
func (l Lane) dropPoison(names ...string) error {
	for _, name := range names {
		if err := l.root.fs.Remove(l.Path(Poison, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return l.root.fs.SyncDir(l.Dir(Poison))
}

// endSalvages ends what a crash left of Salvage: an original with both names. Where the new segment is there, in whatever
// state, the first name goes; else the further one does, and the damaged segment is as before.
func (r *resolver) endSalvages() error {
	kept, err := r.lane.Kept()
	if err != nil {
		return err
	}
	for _, name := range kept {
		first, e, _ := originalOf(name)
		original := rename{src: r.lane.Path(Poison, first), dst: r.lane.Path(Poison, name)}
		both, err := sameFile(r.lane.root.fs, &original)
		if errors.Is(err, ErrConflict) {
			continue // set aside since: a copy of its own
		}
		if err == nil && both {
			err = r.endSalvage(first, name, e.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) endSalvage(first, kept string, id ID) error {
	l := r.lane
	// First what only the two names lead to.
	if err := r.removeTemp(vfs.TempName(l.Path(Sealed, id.FileName()))); err != nil {
		return err
	}
	for _, st := range []State{Sealed, Processing, Orphans, Committed} {
		name := l.Path(st, id.FileName())
		if _, err := l.root.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := errors.Join(syncFile(l.root.fs, name), l.root.fs.SyncDir(l.Dir(st))); err != nil {
			return err
		}
		r.done.Dropped = append(r.done.Dropped, Fate{State: Poison, Name: first, Kept: st, Reason: "its sound beginning was salvaged"})
		return l.dropPoison(first, first+noteSuffix)
	}
	r.done.Temps = append(r.done.Temps, l.Path(Poison, kept))
	return l.dropPoison(kept, kept+noteSuffix)
}
