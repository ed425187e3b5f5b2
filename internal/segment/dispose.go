package segment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Note says why a segment was set aside. It is the file poison/<name>.json.
type Note struct {
	Reason   string    `json:"reason"`
	Attempts int       `json:"attempts"` // reads tried
	Time     time.Time `json:"time"`
}

// Quarantine sets an unreadable segment aside: its note first, then the Move to poison/ under the same name.
// Durable when it returns nil: no segment is in poison/ without a reason. A crash leaves the note alone, or
// both names. Idempotent; the last note wins. errors and races as Move.
func (l Lane) Quarantine(from State, name string, note Note) error {
	return l.quarantineAs(from, name, path.Base(name), note)
}

func (l Lane) quarantineAs(from State, name, newName string, note Note) error {
	if err := l.writeNote(newName, note); err != nil {
		return fmt.Errorf("quarantine %s: %w", name, err)
	}
	_, err := l.MoveAs(from, name, Poison, newName)
	return err
}

func (l Lane) writeNote(name string, note Note) error {
	b, err := json.MarshalIndent(note, "", "  ")
	if err != nil {
		return err
	}
	return vfs.WriteFile(l.root.fs, l.Path(Poison, name+noteSuffix), append(b, '\n'))
}

// ReadNote returns the note of a name in poison/; fs.ErrNotExist if it has none.
func (l Lane) ReadNote(name string) (Note, error) {
	b, err := vfs.ReadFile(l.root.fs, l.Path(Poison, name+noteSuffix))
	if err != nil {
		return Note{}, err
	}
	var n Note
	if err := json.Unmarshal(b, &n); err != nil {
		return Note{}, fmt.Errorf("read note of %s: %w", name, err)
	}
	return n, nil
}

// MoveStale moves a segment that belongs to another incarnation of the table to stale/<table>/, which it makes.
// Durable when it returns nil. Idempotent. errors and races as Move.
func (l Lane) MoveStale(from State, name string, table uuid.UUID) error {
	sub := table.String()
	if err := l.root.fs.MkdirAll(l.Path(Stale, sub)); err != nil {
		return fmt.Errorf("move %s to %s: %w", name, Stale, err)
	}
	_, err := l.MoveAs(from, name, Stale, path.Join(sub, path.Base(name)))
	return err
}

// Retire deletes segments from committed/. The caller has proved that their rows are in the table and that no
// consumer and no pin needs them (RET-1). Durable when it returns nil; a crash before that may bring names back,
// which is harmless: they are retired again. Idempotent, safe for use at once.
func (l Lane) Retire(names []string) error {
	if len(names) == 0 {
		return nil
	}
	var errs []error
	for _, name := range names {
		err := l.root.fs.Remove(l.Path(Committed, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, l.root.fs.SyncDir(l.Dir(Committed)))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("retire in lane %s: %w", l.Key(), err)
	}
	return nil
}
