package segment

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// clean removes temporary files of the drain's records, and from poison/ temporary files and notes whose segment
// never arrived. A note is written before its segment moves: one whose segment is in active/ is the writer's,
// who may be at it, every other the drain's.
func (r *resolver) clean(by Scope) error {
	l := r.lane
	if by == ByDrain {
		for _, name := range []string{ownerName, headName, numbersName} {
			if err := r.removeTemp(filepath.Join(l.dir, name+".tmp")); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(r.cleanDrafts(by), r.cleanStale(by)); err != nil {
		return err
	}
	entries, err := list(l.root.fs, l.Dir(Poison))
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.Name] = true
	}
	for _, e := range entries {
		note := strings.TrimSuffix(e.Name, ".tmp")
		if !isNote(Poison, note) || note == e.Name && there[strings.TrimSuffix(note, noteSuffix)] {
			continue
		}
		about, _ := noteOf(note)
		owner, err := r.noteOwner(about.ID)
		if err != nil {
			return err
		}
		if owner != by || r.mine != nil && !r.mine(about.ID) {
			continue
		}
		if err := r.removeTemp(l.Path(Poison, e.Name)); err != nil {
			return err
		}
	}
	return nil
}

// cleanDrafts removes what a crash left of a writer that said what the lane holds.
func (r *resolver) cleanDrafts(by Scope) error {
	if by != ByDrain {
		return nil
	}
	entries, err := list(r.lane.root.fs, r.lane.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isDraft(e.Name) && !e.IsDir {
			if err := r.removeTemp(filepath.Join(r.lane.dir, e.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// cleanStale removes what a crash left of RequeueStale and of WriteHead.
func (r *resolver) cleanStale(by Scope) error {
	if by != ByDrain {
		return nil
	}
	entries, _, err := r.lane.List(Stale)
	if err != nil {
		return err
	}
	tables, err := list(r.lane.root.fs, r.lane.Dir(Stale))
	if err != nil {
		return err
	}
	for _, of := range tables {
		if of.IsDir {
			if err := r.cleanRecords(of.Name); err != nil {
				return err
			}
		}
	}
	for _, e := range entries {
		if err := r.removeTemp(vfs.TempName(r.lane.Path(Sealed, e.ID.FileName()))); err != nil {
			return err
		}
	}
	return nil
}

// cleanRecords removes records of one table's directory in stale/ that were never finished.
func (r *resolver) cleanRecords(dir string) error {
	files, err := list(r.lane.root.fs, r.lane.Path(Stale, dir))
	if err != nil {
		return err
	}
	for _, f := range files {
		if vfs.IsTemp(f.Name) {
			if err := r.removeTemp(r.lane.Path(Stale, path.Join(dir, f.Name))); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteOwner tells who may be writing a note.
func (r *resolver) noteOwner(id ID) (Scope, error) {
	_, err := r.lane.root.fs.Stat(r.lane.Path(Active, id.PartialName()))
	if errors.Is(err, fs.ErrNotExist) {
		return ByDrain, nil
	}
	return ByWriter, err
}

func (r *resolver) removeTemp(name string) error {
	fsys := r.lane.root.fs
	err := fsys.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	r.done.Temps = append(r.done.Temps, name)
	return fsys.SyncDir(filepath.Dir(name))
}
