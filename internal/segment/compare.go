package segment

import (
	"bytes"
	"errors"
	"io"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Relation of two copies of one id.
type Relation uint8

// Relations of two copies.
const (
	Unlike        Relation = iota // they contradict each other
	SameFile                      // one inode
	SameBody                      // equal bodies
	FirstShorter                  // the first is the beginning of the second
	SecondShorter                 // the second is the beginning of the first
)

// String is the reason that a log gives for what became of a copy.
func (r Relation) String() string {
	switch r {
	case SameFile:
		return "second name of one file"
	case SameBody:
		return "copy with the same body"
	case FirstShorter, SecondShorter:
		return "shorter copy of the same body"
	case Unlike:
	}
	return "contradicts"
}

func (r *resolver) relate(a, b held) (Relation, error) {
	fsys := r.lane.root.fs
	pa, pb := r.lane.Path(a.state, a.Name), r.lane.Path(b.state, b.Name)
	ia, err := fsys.Stat(pa)
	if err != nil {
		return Unlike, err
	}
	ib, err := fsys.Stat(pb)
	if err != nil {
		return Unlike, err
	}
	if ia.Inode == ib.Inode {
		return SameFile, nil
	}
	return compareFiles(fsys, pa, pb)
}

func compareFiles(fsys vfs.FS, a, b string) (Relation, error) {
	fa, err := fsys.Open(a)
	if err != nil {
		return Unlike, err
	}
	defer func() { _ = fa.Close() }() // opened for reading
	fb, err := fsys.Open(b)
	if err != nil {
		return Unlike, err
	}
	defer func() { _ = fb.Close() }() // opened for reading
	ia, err := fa.Stat()
	if err != nil {
		return Unlike, err
	}
	ib, err := fb.Stat()
	if err != nil {
		return Unlike, err
	}
	return Relate(fa, ia.Size, fb, ib.Size)
}

// Relate compares two copies of one segment by their bodies: the messages, without header and end-of-stream mark. It
// says nothing of inodes, and its errors are those of the readers.
func Relate(a io.ReaderAt, sizeA int64, b io.ReaderAt, sizeB int64) (Relation, error) {
	ba, za, err := bodyOf(a, sizeA)
	if err != nil {
		return Unlike, err
	}
	bb, zb, err := bodyOf(b, sizeB)
	if err != nil {
		return Unlike, err
	}
	if za != zb && min(ba.Size(), bb.Size()) > 0 {
		return Unlike, nil // equal bytes would say different things
	}
	return compareBodies(ba, bb)
}

// holdsBytes tells whether a file is exactly these bytes.
func holdsBytes(fsys vfs.FS, name string, want []byte) (bool, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	rel, err := compareBodies(io.NewSectionReader(f, 0, st.Size), io.NewSectionReader(bytes.NewReader(want), 0, int64(len(want))))
	return rel == SameBody, err
}

const compareSize = 64 << 10 // bytes held of each file while comparing

// bodyOf is what two copies of one segment have in common: the Arrow messages, without the header, which is
// rewritten at sealing, and without the end-of-stream mark, behind which the other copy may go on. Of a compressed file it
// is the bytes as stored. A file whose header cannot be read is compared whole.
func bodyOf(f io.ReaderAt, size int64) (body *io.SectionReader, zstd bool, err error) {
	head := make([]byte, min(size, frame.HeaderSize))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	start, end := int64(0), size
	h, err := frame.ParseHeader(head)
	switch {
	case err == nil || errors.Is(err, frame.ErrHeaderCheck) && !h.Zstd:
		start, zstd = h.Size(), h.Zstd
	case errors.Is(err, frame.ErrLength):
		start = end // cut inside the header: no body
	}
	eos := frame.EOS()
	if !zstd && end-start >= int64(len(eos)) {
		tail := make([]byte, len(eos))
		if _, err := f.ReadAt(tail, end-int64(len(eos))); err != nil && !errors.Is(err, io.EOF) {
			return nil, false, err
		}
		if bytes.Equal(tail, eos) {
			end -= int64(len(eos))
		}
	}
	return io.NewSectionReader(f, start, end-start), zstd, nil
}

func compareBodies(a, b *io.SectionReader) (Relation, error) {
	shorter := min(a.Size(), b.Size())
	bufA, bufB := make([]byte, compareSize), make([]byte, compareSize)
	for off := int64(0); off < shorter; {
		n := min(shorter-off, compareSize)
		if _, err := io.ReadFull(a, bufA[:n]); err != nil {
			return Unlike, err
		}
		if _, err := io.ReadFull(b, bufB[:n]); err != nil {
			return Unlike, err
		}
		if !bytes.Equal(bufA[:n], bufB[:n]) {
			return Unlike, nil
		}
		off += n
	}
	switch {
	case a.Size() < b.Size():
		return FirstShorter, nil
	case a.Size() > b.Size():
		return SecondShorter, nil
	}
	return SameBody, nil
}
