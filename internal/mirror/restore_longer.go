package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// local is one name of a segment in the root.
type local struct {
	lane  segment.Lane
	state segment.State
	name  string
}

// errBeside says that a longer copy cannot be restored beside a process that has the root.
var errBeside = errors.New("the root has only the beginning of this segment; stop the collector and run it again without --online")

// errUnlike says that the mirror has more of a segment than the root, and that it does not go on where the root's ends.
var errUnlike = errors.New("the copy in the root has fewer rows and is not the beginning of this one")

// onlyPoison is the file of a segment that the root has in poison/ and nowhere else; "" otherwise.
func onlyPoison(copies []local) string {
	file := ""
	for _, c := range copies {
		if c.state != segment.Poison {
			return ""
		}
		file = c.lane.Key() + "/" + string(c.state) + "/" + c.name
	}
	return file
}

// covered tells whether the root has all of a segment that an object can hold: one of its copies is whole, or a beginning
// that is no shorter. What is in poison/, what is damaged, and what is in another lane is left as it is.
func (r *restore) covered(copies []local, f find) (bool, error) {
	for _, c := range copies {
		if c.state == segment.Poison || c.lane.Key() != f.lane() {
			return true, nil
		}
		end, whole, err := r.endOf(c)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil // a running drain has moved it on
		}
		if err != nil || whole || f.size <= end+int64(len(frame.EOS())) {
			return true, err
		}
	}
	return false, nil
}

// endOf is where the whole batches of a copy end that is a beginning, in bytes of the file.
func (r *restore) endOf(c local) (end int64, whole bool, err error) {
	f, size, err := r.openLocal(c)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = f.Close() }() // only read
	open := c.state == segment.Active
	if !open {
		head := make([]byte, min(size, frame.HeaderSize))
		if _, err := f.ReadAt(head, 0); err != nil {
			return 0, false, err
		}
		if h, err := frame.ParseHeader(head); err != nil || !h.Partial {
			return 0, true, nil // damage is the drain's to tell
		}
	}
	sum, err := frame.Inspect(f, size, frame.DecodeOptions{Open: open})
	if open && (errors.Is(err, frame.ErrEmpty) || errors.Is(err, frame.ErrNoBatch)) {
		return 0, false, nil // the power went before any of it was synced
	}
	if err != nil || sum.Sealed {
		return 0, true, nil // as above
	}
	return size - sum.TailDropped, false, nil
}

func (r *restore) openLocal(c local) (f vfs.File, size int64, err error) {
	f, err = r.opt.FS.Open(c.lane.Path(c.state, c.name))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size, nil
}

// goesOn returns nil when body begins with what is whole of each of the copies.
func (r *restore) goesOn(copies []local, body []byte) error {
	for _, c := range copies {
		end, _, err := r.endOf(c)
		if err != nil {
			return err
		}
		if end == 0 {
			continue
		}
		f, _, err := r.openLocal(c)
		if err != nil {
			return err
		}
		rel, err := segment.Relate(f, end, bytes.NewReader(body), int64(len(body))) // without a torn tail
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if rel != segment.FirstShorter {
			return fmt.Errorf("%w (%s)", errUnlike, c.state)
		}
	}
	return nil
}
