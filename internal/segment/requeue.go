package segment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Into says that somebody decided to bring segments of one table into another. It is the file
// stale/<uuid of the one>/into-<uuid of the other>.json, and tells of the first time.
type Into struct {
	Table uuid.UUID `json:"table"`
	Time  time.Time `json:"time"`
	By    string    `json:"by"`
}

const intoPrefix = "into-"

func intoName(table uuid.UUID) string { return intoPrefix + table.String() + noteSuffix }

// intoOf tells which table a file in stale/<uuid>/ is a record about.
func intoOf(file string) (uuid.UUID, bool) {
	text, ok := strings.CutPrefix(file, intoPrefix)
	if !ok {
		return uuid.Nil, false
	}
	table, err := uuid.Parse(strings.TrimSuffix(text, noteSuffix))
	return table, err == nil && intoName(table) == file
}

func isInto(st State, file string) bool {
	_, ok := intoOf(file)
	return ok && st == Stale
}

// Intos returns the tables that segments of a table in stale/ were brought into, in order of their UUIDs.
func (l Lane) Intos(of uuid.UUID) ([]Into, error) {
	entries, err := list(l.root.fs, l.Path(Stale, of.String()))
	if err != nil {
		return nil, fmt.Errorf("list %s of lane %s: %w", Stale, l.Key(), err)
	}
	var out []Into
	for _, e := range entries {
		if !isInto(Stale, e.Name) {
			continue
		}
		name := l.Path(Stale, path.Join(of.String(), e.Name))
		b, err := vfs.ReadFile(l.root.fs, name)
		if err != nil {
			return nil, err
		}
		var into Into
		if err := json.Unmarshal(b, &into); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		out = append(out, into)
	}
	return out, nil
}

// RequeueStale takes a segment of another table from stale/ to sealed/, as one of into.Table: file is its bytes, stamped
// with that table (frame.Stamp). That header is what every drain goes by. The caller holds drain.lock, and the segment has
// no other copy.
//
// Durable when it returns nil. Idempotent. In order: the record of the decision, the new file in sealed/, and only then the
// name in stale/ goes. A crash leaves both, which are copies of one segment: Resolve keeps the one in stale/, so nothing has
// happened. It returns false when the name was gone from stale/.
//
//	errors  ErrConflict when sealed/ has another file of that name; nothing but the record was written then
//	holds   ONE-1, LOUD-1
func (l Lane) RequeueStale(name string, file []byte, into Into) (bool, error) {
	done, err := l.requeueStale(name, file, into)
	if err != nil {
		return done, fmt.Errorf("requeue %s of lane %s: %w", name, l.Key(), err)
	}
	return done, nil
}

func (l Lane) requeueStale(name string, file []byte, into Into) (bool, error) {
	fsys := l.root.fs
	id, partial, err := ParseName(path.Base(name))
	if err != nil || partial {
		return false, fmt.Errorf("%w: %.80q", ErrNotID, name)
	}
	src, dir := l.Path(Stale, name), l.Path(Stale, path.Dir(name))
	switch _, err := fsys.Stat(src); {
	case errors.Is(err, fs.ErrNotExist): // an earlier attempt has come so far
		return false, fsys.SyncDir(dir)
	case err != nil:
		return false, err
	}
	if err := l.recordInto(path.Dir(name), into); err != nil {
		return false, err
	}
	if err := publish(fsys, l.Path(Sealed, id.FileName()), file); err != nil {
		return false, err
	}
	if err := fsys.Remove(src); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, fsys.SyncDir(dir)
}

// recordInto writes the record of a decision, unless there is one. Durable when it returns nil.
func (l Lane) recordInto(dir string, into Into) error {
	name := l.Path(Stale, path.Join(dir, intoName(into.Table)))
	_, err := l.root.fs.Stat(name)
	if err == nil { // perhaps of a process that was killed before it had synced the name
		return l.root.fs.SyncDir(l.Path(Stale, dir))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b, err := json.MarshalIndent(into, "", "  ")
	if err != nil {
		return err
	}
	return vfs.WriteFile(l.root.fs, name, append(b, '\n'))
}

// Discard deletes an orphan whose rows are not proved to be in a table, because somebody decided to. Its number is marked
// void first, so that nobody reports it as lost. Durable when it returns nil. Idempotent. A crash leaves the mark alone, or
// brings the name back. A pin is left: the mirror keeps, or gets, its copy. The caller holds drain.lock.
func (l Lane) Discard(name string) error {
	id, partial, err := ParseName(name)
	if err != nil || partial {
		return fmt.Errorf("discard in lane %s: %w: %.80q", l.Key(), ErrNotID, name)
	}
	if !l.legacy { // the numbers of others promise nothing
		if err := l.MarkVoid(id); err != nil {
			return err
		}
	}
	err = l.root.fs.Remove(l.Path(Orphans, name))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = l.root.fs.SyncDir(l.Dir(Orphans))
	}
	if err != nil {
		return fmt.Errorf("discard %s of lane %s: %w", name, l.Key(), err)
	}
	return nil
}
