package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// holdsName is the file of a lane that says what its rows are, logs for example. The first writer makes it, or a recovery.
const holdsName = "holds"

// holdTries bounds the race with a drain that takes the draft for one a crash left.
const holdTries = 3

// damagedHolds is what helps where holds is not what was written.
const damagedHolds = "write logs, traces or metrics and a line feed there, what the lane's table holds (docs/operations/disaster-recovery.md)"

// Held is what a lane holds.
type Held struct {
	Kind string // logs, traces or metrics; empty: nothing is decided
	// From is the segment that said so, as state/name, where holds was missing or damaged; else empty.
	From string
	// Mended is what was wrong with the damaged file that was written anew; nil: nothing.
	Mended error
}

// Hold finds out what the rows of the lane are, or decides it, and records that. What holds says counts; where it is missing or
// damaged, what the segments of the lane say; where there are none, kind decides, unless that is empty. Of several calls at once, also
// of several processes, one decides and the others return what it said. The lane is prepared.
//
// Durable when it returns nil. Idempotent. A crash leaves the file whole or not at all, and perhaps a temporary one.
//
//	errors  ErrRecord: the file is damaged and no segment says what it was. A file that cannot be read is an error, never "nothing"
func (l Lane) Hold(kind string) (Held, error) {
	have, err := l.Holds()
	if err == nil && have != "" {
		have, err = l.Decide(have) // its name may not be synced
		return Held{Kind: have}, err
	}
	damage := err
	if err != nil && !errors.Is(err, ErrRecord) {
		return Held{}, err
	}
	said, from, err := l.said()
	if err != nil {
		return Held{}, errors.Join(damage, err)
	}
	switch {
	case damage != nil && said == "":
		return Held{}, fmt.Errorf("%w; no segment of the lane says what its rows are", damage)
	case damage != nil:
		if err := l.writeHolds(said, l.root.fs.Rename); err != nil {
			return Held{}, errors.Join(damage, err)
		}
	case said == "" && kind == "":
		return Held{}, nil
	}
	have, err = l.Decide(cmp.Or(said, kind))
	return Held{Kind: have, From: from, Mended: damage}, err
}

// Decide makes the lane one of rows of a kind, unless it is one already, and returns what it holds. No segment is asked. Else as Hold.
func (l Lane) Decide(kind string) (string, error) {
	if !slices.Contains(kinds(), kind) {
		return "", fmt.Errorf("hold %q in lane %s: want one of %q", kind, l.Key(), kinds())
	}
	have, err := l.Holds()
	for try := 0; err == nil && have == "" && try < holdTries; try++ {
		err = l.writeHolds(kind, l.root.fs.Link)
		if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			have, err = l.Holds()
		}
	}
	if err == nil && have == "" {
		err = fmt.Errorf("the file %s is removed as soon as it is made", holdsName)
	}
	if err == nil {
		// The file may be the work of a process that was killed before it had synced the name.
		err = l.root.fs.SyncDir(l.dir)
	}
	if err != nil {
		return "", fmt.Errorf("hold %s in lane %s: %w", kind, l.Key(), err)
	}
	return have, nil
}

// Holds is what Hold has said of the lane; empty if nothing. A file that cannot be read or understood is an error that names it.
//
//	errors  ErrRecord: it is damaged, or another lane's
func (l Lane) Holds() (string, error) {
	name := filepath.Join(l.dir, holdsName)
	b, err := vfs.ReadFile(l.root.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s of lane %s: %w; %s", holdsName, l.Key(), err, damagedHolds)
	}
	text, whole := strings.CutSuffix(string(b), "\n")
	kind, check, checked := strings.Cut(text, " ")
	if !whole || checked && check != l.holdsCheck(kind) || !slices.Contains(kinds(), kind) {
		return "", fmt.Errorf("read %s of lane %s: %s: %w: it is %.40q; %s", holdsName, l.Key(), name, ErrRecord, b, damagedHolds)
	}
	return kind, nil
}

// holdsCheck covers the lane's name too: the file of another lane reads as well as the right one.
func (l Lane) holdsCheck(kind string) string { return checkOf([]byte(l.Key() + " " + kind)) }

// writeHolds publishes by a link, which another one's file refuses, or by a rename; where links are refused, by a rename.
func (l Lane) writeHolds(kind string, publish func(draft, name string) error) error {
	u, err := uuid.NewRandom()
	if err != nil {
		return err
	}
	fsys, name := l.root.fs, filepath.Join(l.dir, holdsName)
	draft := name + "." + u.String()
	if err := vfs.WriteFile(fsys, draft, []byte(kind+" "+l.holdsCheck(kind)+"\n")); err != nil {
		return err
	}
	err = publish(draft, name)
	if vfs.NoLinks(err) {
		err = fsys.Rename(draft, name)
	}
	if rerr := fsys.Remove(draft); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// isDraft tells a file that writeHolds has not published, or that a crash left.
func isDraft(name string) bool { return strings.HasPrefix(name, holdsName+".") }
