package frame

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
)

// Salvaged is the sound beginning of a damaged segment, and what is known of the rest.
type Salvaged struct {
	// File is a PARTIAL segment: a new header, the schema, and the whole batches up to the damage. The messages are those
	// of the damaged one, byte for byte, so each row keeps its position, and a whole copy of the segment goes on behind.
	File    []byte
	Batches int
	Rows    int64

	// Cause is what ends the beginning; nil where all messages are sound and only the header is not.
	Cause error
	End   int64 // where in the damaged file the beginning ends
	Lost  int64 // bytes of it from there on
	// LostBatches are the batches behind the damage that are sound in themselves, LostRows their rows; at least. Their
	// positions are not known, because how many rows stand between is not.
	LostBatches int
	LostRows    int64
	// BadHeader means that the header's check does not match, so File names no table.
	BadHeader bool
}

// Salvage returns the whole leading batches of a damaged segment of size bytes. What the header claims about the body
// is ignored, and what cannot be read from the disk is lost. The body is in memory once.
//
//	errors  ErrVersion (not damaged: leave the file alone), ErrEmpty, ErrTooBig; ErrUnproved; a *CorruptError around
//	        ErrNoBatch when no whole batch comes first; an error of r when nothing could be read
//	holds   ACK-2, LOUD-1 (docs/invariants.md)
func Salvage(r io.ReaderAt, size int64, opt DecodeOptions) (*Salvaged, error) {
	opt.Open = true
	p, err := open(r, size, opt)
	if err != nil {
		return nil, err
	}
	file := make([]byte, HeaderSize+p.size-p.base)
	n, unread := readable(r, file[HeaderSize:], p.base)
	if n == 0 {
		return nil, unread
	}
	a := assembler{body: memory.NewBufferBytes(file[HeaderSize : HeaderSize+n]), mem: opt.allocator()}
	defer a.drop()
	w := &walk{src: memSource(a.body.Bytes(), p.base), visit: a.add}
	cause := w.run()
	if unread != nil {
		cause = errors.Join(cause, unread)
	}
	switch {
	case w.batches == 0:
		return nil, &CorruptError{Offset: p.base + w.pos, Err: fmt.Errorf("%w before the damage: %w", ErrNoBatch, cause)}
	case !w.crcs:
		return nil, fmt.Errorf("%w: which of %d batches are sound cannot be told: %w", ErrUnproved, w.batches, cause)
	}
	s := &Salvaged{Batches: w.batches, Rows: w.rows, Cause: cause, End: p.base + w.end, BadHeader: p.badHeader}
	if !w.complete {
		s.Lost = p.size - s.End
		after, err := w.scan(w.end + 1)
		if err != nil {
			return nil, err
		}
		s.LostBatches, s.LostRows = after.batches, after.rows
	}
	h := Header{Partial: true, Table: p.header.Table}
	if p.badHeader {
		h.Table = uuid.Nil // one that nobody vouches for would send the rows away
	}
	head := h.Encode()
	copy(file, head[:])
	s.File = file[:HeaderSize+w.end]
	return s, nil
}

// readable fills b from offset off as far as the disk gives it, and tells how far that is and what stopped it.
func readable(r io.ReaderAt, b []byte, off int64) (n int64, err error) {
	step := int64(windowSize)
	for n < int64(len(b)) {
		part := min(n+step-(off+n)%step, int64(len(b))) // up to a multiple of step in the file
		err := readFull(r, b[n:part], off+n)
		switch {
		case err == nil:
			n = part
		case step > sectorSize:
			step = sectorSize // to come as near to the bad place as the disk tells
		default:
			return n, err
		}
	}
	return n, nil
}

// drop gives back everything, the batches too.
func (a *assembler) drop() {
	a.close()
	for _, b := range a.batches {
		b.Release()
	}
	a.body.Release()
}
