package segment

import (
	"bytes"
	"errors"
	"io"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// relation of two copies of one id.
type relation uint8

const (
	unlike        relation = iota
	sameFileRel            // one inode
	sameBody               // equal bodies
	firstShorter           // the first is the beginning of the second
	secondShorter          // the second is the beginning of the first
)

func (r relation) String() string {
	switch r {
	case sameFileRel:
		return "second name of one file"
	case sameBody:
		return "copy with the same body"
	case firstShorter, secondShorter:
		return "shorter copy of the same body"
	case unlike:
	}
	return "contradicts"
}

func (r *resolver) relate(a, b held) (relation, error) {
	fsys := r.lane.root.fs
	pa, pb := r.lane.Path(a.state, a.Name), r.lane.Path(b.state, b.Name)
	ia, err := fsys.Stat(pa)
	if err != nil {
		return unlike, err
	}
	ib, err := fsys.Stat(pb)
	if err != nil {
		return unlike, err
	}
	if ia.Inode == ib.Inode {
		return sameFileRel, nil
	}
	return compareFiles(fsys, pa, pb)
}

func compareFiles(fsys vfs.FS, a, b string) (relation, error) {
	fa, err := fsys.Open(a)
	if err != nil {
		return unlike, err
	}
	defer func() { _ = fa.Close() }() // opened for reading
	fb, err := fsys.Open(b)
	if err != nil {
		return unlike, err
	}
	defer func() { _ = fb.Close() }() // opened for reading
	ba, err := bodyOf(fa)
	if err != nil {
		return unlike, err
	}
	bb, err := bodyOf(fb)
	if err != nil {
		return unlike, err
	}
	return compareBodies(ba, bb)
}

const compareSize = 64 << 10 // bytes held of each file while comparing

// bodyOf is what two copies of one segment have in common: the Arrow messages, without the header, which is
// rewritten at sealing, and without the end-of-stream mark, behind which the other copy may go on. A compressed
// file, and one whose header cannot be read, is compared whole.
func bodyOf(f vfs.File) (*io.SectionReader, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, min(st.Size, frame.HeaderSize))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	start, end := int64(0), st.Size
	h, err := frame.ParseHeader(head)
	switch {
	case (err == nil || errors.Is(err, frame.ErrHeaderCheck)) && !h.Zstd:
		start = h.Size()
	case errors.Is(err, frame.ErrLength):
		start = end // cut inside the header: no body
	}
	eos := frame.EOS()
	if end-start >= int64(len(eos)) {
		tail := make([]byte, len(eos))
		if _, err := f.ReadAt(tail, end-int64(len(eos))); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if bytes.Equal(tail, eos) {
			end -= int64(len(eos))
		}
	}
	return io.NewSectionReader(f, start, end-start), nil
}

func compareBodies(a, b *io.SectionReader) (relation, error) {
	shorter := min(a.Size(), b.Size())
	bufA, bufB := make([]byte, compareSize), make([]byte, compareSize)
	for off := int64(0); off < shorter; {
		n := min(shorter-off, compareSize)
		if _, err := io.ReadFull(a, bufA[:n]); err != nil {
			return unlike, err
		}
		if _, err := io.ReadFull(b, bufB[:n]); err != nil {
			return unlike, err
		}
		if !bytes.Equal(bufA[:n], bufB[:n]) {
			return unlike, nil
		}
		off += n
	}
	switch {
	case a.Size() < b.Size():
		return firstShorter, nil
	case a.Size() > b.Size():
		return secondShorter, nil
	}
	return sameBody, nil
}
