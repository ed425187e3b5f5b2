package segment

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// clean removes temporary files of the drain's records, and from poison/ temporary files and notes whose segment
// never arrived. A note is written before its segment moves; so one whose segment is in active/ may be the work
// of a running writer and stays.
func (r *resolver) clean() error {
	l := r.lane
	for _, name := range []string{ownerName, headName} {
		if err := r.removeTemp(filepath.Join(l.dir, name+".tmp")); err != nil {
			return err
		}
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
		segment, _ := parseEntry(Poison, strings.TrimSuffix(note, noteSuffix))
		_, err := l.root.fs.Stat(l.Path(Active, segment.ID.PartialName()))
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := r.removeTemp(l.Path(Poison, e.Name)); err != nil {
			return err
		}
	}
	return nil
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
