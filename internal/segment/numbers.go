package segment

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

const (
	numbersFormat = 1

	// keptWriters bounds the writers without a file that the record remembers. One that comes back after so many
	// others were new in the lane, without a file meanwhile, would look as if its first segments had been removed;
	// a lane's only writer cannot, several that share a volume would take hours of a crash loop for it.
	keptWriters = 1024
)

// Numbers is what became of a lane's sequence numbers whose files are gone. Without it a retired prefix could
// not be told from a removed one. It is the file numbers.json of the lane, the drain's.
type Numbers struct {
	Format  int             `json:"format"`
	Writers []WriterNumbers `json:"writers"` // in the order of their last change
}

// WriterNumbers is one writer of Numbers.
type WriterNumbers struct {
	Writer string `json:"writer"` // 12 hex digits
	// Top is the greatest number that is known to have been a sealed segment: all below it have been, or are void.
	Top     uint64 `json:"top"`
	Settled Spans  `json:"settled,omitempty"` // retired, void, or set aside in poison/ or stale/
	Missing Spans  `json:"missing,omitempty"` // reported: neither there nor settled
}

// Numbers returns the lane's record, false if it has none.
//
//	errors  ErrRecord if it is damaged or no file, ErrFormat if a newer version wrote it
func (l Lane) Numbers() (Numbers, bool, error) {
	name := filepath.Join(l.dir, numbersName)
	b, err := vfs.ReadFile(l.root.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Numbers{}, false, nil
	}
	var n Numbers
	switch {
	case vfs.NoFile(err):
		err = fmt.Errorf("%w: %w", ErrRecord, err)
	case err != nil:
		return Numbers{}, false, fmt.Errorf("read %s of lane %s: %w", numbersName, l.Key(), unreadable(err))
	default:
		n, err = parseNumbers(b)
	}
	switch {
	case errors.Is(err, ErrRecord):
		return Numbers{}, false, fmt.Errorf("read %s of lane %s: %w in %s; the next drain sets it aside and begins another", numbersName, l.Key(), err, name)
	case err != nil:
		return Numbers{}, false, fmt.Errorf("read %s of lane %s: %w in %s; take the newer version of siglakecol again", numbersName, l.Key(), err, name)
	}
	return n, true, nil
}

func parseNumbers(b []byte) (Numbers, error) {
	var n Numbers
	if err := DecodeRecord(b, &n); err != nil {
		return Numbers{}, err
	}
	if n.Format > numbersFormat {
		return Numbers{}, fmt.Errorf("%w: %d, this version knows %d", ErrFormat, n.Format, numbersFormat)
	}
	if n.Format != numbersFormat {
		return Numbers{}, fmt.Errorf("%w: format %d", ErrRecord, n.Format)
	}
	seen := map[string]bool{}
	for i := range n.Writers {
		w := &n.Writers[i]
		if !isWriter(w.Writer) || seen[w.Writer] {
			return Numbers{}, fmt.Errorf("%w: writer %.40q", ErrRecord, w.Writer)
		}
		seen[w.Writer] = true
		for _, s := range slices.Concat(w.Settled, w.Missing) {
			if s[0] < 1 || s[0] > s[1] {
				return Numbers{}, fmt.Errorf("%w: writer %s: numbers %d to %d", ErrRecord, w.Writer, s[0], s[1])
			}
		}
		w.Settled, w.Missing = NewSpans(w.Settled...), NewSpans(w.Missing...)
	}
	return n, nil
}

func isWriter(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == writerLen/2 && hex.EncodeToString(b) == s
}

// WriteNumbers replaces the record. Durable when it returns nil; a crash leaves the old one or the new one.
// Idempotent. Only the holder of drain.lock calls it.
func (l Lane) WriteNumbers(n Numbers) error {
	n.Format = numbersFormat
	b, err := EncodeRecord(n)
	if err != nil {
		return fmt.Errorf("write %s of lane %s: %w", numbersName, l.Key(), err)
	}
	return vfs.WriteFile(l.root.fs, filepath.Join(l.dir, numbersName), b)
}

// SetNumbersAside renames a damaged record to numbers.json.damaged, for inspection; the last one wins. Durable
// when it returns nil. Only the holder of drain.lock calls it.
func (l Lane) SetNumbersAside() error {
	name := filepath.Join(l.dir, numbersName)
	err := l.root.fs.Rename(name, name+".damaged")
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) { // a directory never takes the place of a file
		if err = l.root.fs.Remove(name + ".damaged"); err == nil {
			err = l.root.fs.Rename(name, name+".damaged")
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set %s of lane %s aside: %w", numbersName, l.Key(), err)
	}
	return l.root.fs.SyncDir(l.dir)
}

// Settled tells whether the record says of a segment that it was retired or set aside.
func (n *Numbers) Settled(id ID) bool {
	w := n.of(id.writer())
	return w.Settled.Has(id.Seq)
}

// Settle records segments whose names are about to go for good, and tells whether that is news. They were sealed.
func (n *Numbers) Settle(ids []ID) bool {
	by := map[string][]uint64{}
	for _, id := range ids {
		by[id.writer()] = append(by[id.writer()], id.Seq)
	}
	changed := false
	for _, writer := range sortedKeys(by) {
		settled := SpansOf(by[writer])
		changed = n.settle(writer, settled, settled.top()) || changed
	}
	return changed
}

// settle adds to one writer; the numbers are missing no more. It tells whether that is news.
func (n *Numbers) settle(writer string, settled Spans, top uint64) bool {
	w := n.of(writer)
	missing := w.Missing.Without(settled)
	if top <= w.Top && len(settled.Without(w.Settled)) == 0 && slices.Equal(missing, w.Missing) {
		return false
	}
	w.Top, w.Settled, w.Missing = max(w.Top, top), w.Settled.With(settled), missing
	n.put(w)
	return true
}

// miss records a gap that is being reported.
func (n *Numbers) miss(writer string, missing Spans) {
	w := n.of(writer)
	w.Missing = w.Missing.With(missing)
	n.put(w)
}

func (n *Numbers) of(writer string) WriterNumbers {
	for _, w := range n.Writers {
		if w.Writer == writer {
			return w
		}
	}
	return WriterNumbers{Writer: writer}
}

// put makes w the last changed.
func (n *Numbers) put(w WriterNumbers) {
	n.Writers = slices.DeleteFunc(n.Writers, func(o WriterNumbers) bool { return o.Writer == w.Writer })
	n.Writers = append(n.Writers, w)
}

// prune forgets the writers that changed longest ago, of those without a file, beyond keptWriters.
func (n *Numbers) prune(here map[string]*tally) {
	idle := 0
	for _, w := range n.Writers {
		if here[w.Writer] == nil {
			idle++
		}
	}
	n.Writers = slices.DeleteFunc(n.Writers, func(w WriterNumbers) bool {
		if idle <= keptWriters || here[w.Writer] != nil {
			return false
		}
		idle--
		return true
	})
}
