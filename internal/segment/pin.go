package segment

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Pin gives the segment behind a name of a state its second name in mirror-pending/, which keeps the bytes until the
// segment is uploaded. Durable when it returns nil. Idempotent; safe for use at once.
//
//	return  fs.ErrNotExist when the name is gone; ErrConflict when another file has the pin's name; else what the volume
//	        says of links: EPERM, EOPNOTSUPP, EMLINK, EIO … Nothing was changed then, or the link was made and is not durable
//	holds   PIN-1
func (l Lane) Pin(st State, name string) error {
	if err := l.pin(st, name); err != nil {
		return fmt.Errorf("pin %s of lane %s: %w", name, l.Key(), err)
	}
	return nil
}

func (l Lane) pin(st State, name string) error {
	id, _, err := ParseName(name)
	if err != nil {
		return err
	}
	src, dst := l.Path(st, name), l.Path(MirrorPending, id.FileName())
	err = l.root.fs.Link(src, dst)
	if errors.Is(err, fs.ErrExist) {
		same, err := sameFile(l.root.fs, &rename{src: src, dst: dst})
		if err != nil {
			return err
		}
		if !same {
			return fs.ErrNotExist
		}
	} else if err != nil {
		return err
	}
	return l.root.fs.SyncDir(l.Dir(MirrorPending))
}

// Unpin removes a pin. The caller has confirmed the uploaded object. Idempotent. Not durable: SyncPins makes it so, and so does
// the next Pin of the lane. A pin that a crash brings back costs a look at its object.
//
//	holds   PIN-1
func (l Lane) Unpin(id ID) error {
	err := l.root.fs.Remove(l.Path(MirrorPending, id.FileName()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unpin %s of lane %s: %w", id, l.Key(), err)
	}
	return nil
}

// SyncPins makes each Unpin before it durable: a pin that came back much later would have an object uploaded again that was
// deleted since.
func (l Lane) SyncPins() error {
	if err := l.root.fs.SyncDir(l.Dir(MirrorPending)); err != nil {
		return fmt.Errorf("unpin in lane %s: %w", l.Key(), err)
	}
	return nil
}

// OpenAny opens a segment for reading under whatever name it has: its pin, or a state that a running drain moves it
// through. fs.ErrNotExist when it has none of them.
func (l Lane) OpenAny(id ID) (vfs.File, error) {
	// sealed/ again at the end: a release moves back.
	for _, st := range []State{MirrorPending, Sealed, Processing, Committed, Orphans, Sealed} {
		f, err := l.root.fs.Open(l.Path(st, id.FileName()))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("open %s of lane %s: %w", id, l.Key(), fs.ErrNotExist)
}
