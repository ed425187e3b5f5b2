package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// damagedRecord is what helps where owner or head is not what was written.
const damagedRecord = "restore it, or move it out of the log while the collector is stopped (docs/operations/disaster-recovery.md)"

// unreadable adds to the error of a record what helps: where something that is no file has its name, and where it may not be read.
func unreadable(err error) error {
	switch {
	case vfs.NoFile(err):
		return fmt.Errorf("%w; %s", err, damagedRecord)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let the user that the collector runs as read it (chown)", err)
	}
	return err
}

// Owner returns the UUID of the table that the lane's rows go to; zero if the drain has not named one. A file
// that cannot be read or parsed is an error, never "no owner".
func (l Lane) Owner() (uuid.UUID, error) {
	name := filepath.Join(l.dir, ownerName)
	b, err := vfs.ReadFile(l.root.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return uuid.Nil, nil
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("read %s of lane %s: %w", ownerName, l.Key(), unreadable(err))
	}
	u, err := parseOwner(string(b))
	if err != nil {
		return uuid.Nil, fmt.Errorf("read %s of lane %s: %s: %w; %s", ownerName, l.Key(), name, err, damagedRecord)
	}
	return u, nil
}

// parseOwner reads a UUID and its check, which owners of before do not have.
func parseOwner(text string) (uuid.UUID, error) {
	text, whole := strings.CutSuffix(text, "\n")
	text, check, checked := strings.Cut(text, " ")
	if !whole || checked && check != checkOf([]byte(text)) {
		return uuid.Nil, fmt.Errorf("%w: the check does not match", ErrRecord)
	}
	u, err := uuid.Parse(text)
	if err == nil && u.String() != text {
		err = errors.New("not as it is written")
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return u, nil
}

// WriteOwner names the table. Durable when it returns nil; a crash leaves the old owner or the new one.
// Idempotent. Only the holder of drain.lock calls it.
func (l Lane) WriteOwner(table uuid.UUID) error {
	return vfs.WriteFile(l.root.fs, filepath.Join(l.dir, ownerName), []byte(table.String()+" "+checkOf([]byte(table.String()))+"\n"))
}

// Head is the newest state of the table that the drain has committed to. A catalog that is older than it has
// gone back.
type Head struct {
	Table    uuid.UUID `json:"table"`
	Sequence int64     `json:"sequence"` // Iceberg last-sequence-number
	Metadata string    `json:"metadata"` // location of the metadata file
}

// Head returns the recorded head, false if there is none. A damaged file is an error, never "none".
func (l Lane) Head() (Head, bool, error) { return l.readHead(filepath.Join(l.dir, headName)) }

func (l Lane) readHead(name string) (Head, bool, error) {
	b, err := vfs.ReadFile(l.root.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Head{}, false, nil
	}
	if err != nil {
		return Head{}, false, fmt.Errorf("read %s of lane %s: %w", headName, l.Key(), unreadable(err))
	}
	var h Head
	if err := DecodeRecord(b, &h); err != nil {
		return Head{}, false, fmt.Errorf("read %s of lane %s: %s: %w; %s", headName, l.Key(), name, err, damagedRecord)
	}
	return h, true, nil
}

// WriteHead records the head. One of another table is kept first, as stale/<its uuid>/head: its catalog may be restored.
// Durable when it returns nil; a crash leaves the old one or the new one. Idempotent. Only the holder of drain.lock calls it.
func (l Lane) WriteHead(h Head) error {
	old, ok, err := l.Head()
	if err != nil {
		return err
	}
	if ok && old.Table != h.Table && old.Table != uuid.Nil {
		if err := l.root.fs.MkdirAll(l.Path(Stale, old.Table.String())); err != nil {
			return fmt.Errorf("keep %s of lane %s: %w", headName, l.Key(), err)
		}
		if err := l.writeHead(l.Path(Stale, path.Join(old.Table.String(), headName)), old); err != nil {
			return err
		}
	}
	return l.writeHead(filepath.Join(l.dir, headName), h)
}

func (l Lane) writeHead(name string, h Head) error {
	b, err := EncodeRecord(h)
	if err != nil {
		return fmt.Errorf("write %s of lane %s: %w", headName, l.Key(), err)
	}
	return vfs.WriteFile(l.root.fs, name, b)
}

func isFormer(st State, file string) bool { return st == Stale && file == headName }

// Formers returns the heads that the lane had of other tables, in order of their UUIDs. errors as Head.
func (l Lane) Formers() ([]Head, error) {
	tables, err := list(l.root.fs, l.Dir(Stale))
	if err != nil {
		return nil, fmt.Errorf("list %s of lane %s: %w", Stale, l.Key(), err)
	}
	var out []Head
	for _, of := range tables {
		if !of.IsDir {
			continue
		}
		h, ok, err := l.readHead(l.Path(Stale, path.Join(of.Name, headName)))
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, h)
		}
	}
	return out, nil
}
