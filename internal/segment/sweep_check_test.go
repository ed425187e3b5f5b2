package segment_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

func (sc scene) checkStates(t *testing.T, s *simfs.FS, l segment.Lane, all []segment.ID, complete bool) error {
	t.Helper()
	found := make([][]string, len(all))
	for _, st := range states {
		entries, strangers, err := l.List(st)
		if err != nil || len(strangers) > 0 {
			return fmt.Errorf("list %s: strangers %v: %w", st, strangers, err)
		}
		for _, e := range entries {
			i := slices.Index(all, e.ID)
			found[i] = append(found[i], string(st)+"/"+short(e.Name, all))
			if got := contentOf(t, s, l.Path(st, e.Name)); got != sc.holds(st, e.ID) {
				return fmt.Errorf("%s: other bytes than were written", found[i])
			}
			if st == segment.Poison {
				if got, err := l.ReadNote(e.Name); err != nil || got != note {
					return fmt.Errorf("%s: note %v: %w", found[i], got, err)
				}
			}
		}
	}
	for i, names := range found {
		mayBeGone := slices.Contains(sc.gone, i)
		if len(names) > 1 || len(names) == 0 && !mayBeGone {
			return fmt.Errorf("segment %d has the names %v", i, names)
		}
	}
	if all := slices.Concat(found...); complete && !slices.Equal(all, sc.done) {
		return fmt.Errorf("done was %v, found %v", sc.done, all)
	}
	return nil
}

// checkKept: of a salvaged segment the original is kept with its note, and nothing is of another.
func (sc scene) checkKept(t *testing.T, s *simfs.FS, l segment.Lane, all []segment.ID) error {
	t.Helper()
	kept, err := l.Kept()
	if err != nil {
		return err
	}
	for _, id := range all {
		name := id.FileName() + ".salvaged"
		_, err := s.Stat(l.Path(segment.Sealed, id.FileName()))
		switch salvaged := sc.salvages && err == nil; {
		case salvaged != slices.Contains(kept, name):
			return fmt.Errorf("salvaged %v, originals %v", salvaged, kept)
		case !salvaged:
			continue
		}
		if contentOf(t, s, l.Path(segment.Poison, name)) != body(id) {
			return fmt.Errorf("the original of %s has other bytes", id)
		}
		if got, err := l.ReadNote(name); err != nil || got != lost {
			return fmt.Errorf("the original of %s: note %v: %w", id, got, err)
		}
	}
	return nil
}

// checkDone looks before any recovery: what returned nil needs none.
func (sc scene) checkDone(t *testing.T, s *simfs.FS, all []segment.ID, complete bool) error {
	t.Helper()
	if !complete {
		return nil
	}
	l, err := reopen(s)
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(where(t, l, all), func(name string) bool { return strings.HasPrefix(name, string(segment.MirrorPending)) })
	if !slices.Equal(found, sc.done) {
		return fmt.Errorf("durable was %v, found %v", sc.done, found)
	}
	return nil
}

func (sc scene) checkRecords(l segment.Lane, complete bool) error {
	owner, err := l.Owner()
	if err != nil {
		return err
	}
	head, ok, err := l.Head()
	if err != nil {
		return err
	}
	wrote := complete && sc.name == "owner and head"
	switch {
	case owner != oldTable && owner != newTable, !ok, head.Table == oldTable && head.Sequence != 1, head.Table == newTable && head.Sequence != 2:
		return fmt.Errorf("owner %s, head %v", owner, head)
	case wrote && (owner != newTable || head.Table != newTable):
		return fmt.Errorf("written and durable, but owner %s, head %v", owner, head)
	case head.Table == newTable && owner != newTable:
		return errors.New("head is newer than the owner that was written before it")
	}
	return nil
}

// checkDecision: nothing of stale/ is in sealed/ without a record of who decided it.
func (sc scene) checkDecision(l segment.Lane, complete bool) error {
	if !sc.stamps {
		return nil
	}
	entries, _, err := l.List(segment.Sealed)
	if err != nil {
		return err
	}
	intos, err := l.Intos(oldTable)
	if err != nil {
		return err
	}
	if (complete || len(entries) > 0 || len(intos) > 0) && !slices.Equal(intos, []segment.Into{decided}) {
		return fmt.Errorf("%d in sealed, decisions %v", len(entries), intos)
	}
	return nil
}

// PIN-1: a pin's bytes stay, whatever becomes of the other names.
func checkPins(t *testing.T, s *simfs.FS, l segment.Lane, all []segment.ID) error {
	t.Helper()
	for _, id := range all {
		if _, err := s.Stat(l.Path(segment.MirrorPending, id.FileName())); err != nil {
			return err
		}
		if contentOf(t, s, l.Path(segment.MirrorPending, id.FileName())) != body(id) {
			return fmt.Errorf("the pin of %s has other bytes", id)
		}
	}
	return nil
}

func noTemps(s *simfs.FS) error {
	for _, dir := range []string{"", "/poison", "/sealed", "/stale/" + oldTable.String()} {
		entries, err := s.List("/wal/default/events" + dir)
		if strings.HasPrefix(dir, "/stale") && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name, ".tmp") {
				return fmt.Errorf("temporary file %s is left", e.Name)
			}
			if seg, ok := strings.CutSuffix(e.Name, ".json"); ok && !strings.HasPrefix(dir, "/stale") {
				if _, err := s.Stat("/wal/default/events/poison/" + seg); err != nil {
					return fmt.Errorf("note without a segment: %w", err)
				}
			}
		}
	}
	return nil
}
