package frame

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// source is a body to walk: bytes in memory, or a file of which one window is in memory at a time.
type source struct {
	mem  []byte
	file io.ReaderAt
	base int64 // where in the file the body starts
	size int64
	win  []byte
}

// windowSize is how much of a file Inspect holds besides one message's metadata.
const windowSize = 256 << 10

func memSource(body []byte, base int64) *source {
	return &source{mem: body, base: base, size: int64(len(body))}
}

func fileSource(r io.ReaderAt, base, size int64) *source {
	return &source{file: r, base: base, size: size - base}
}

// view returns the bytes [off, off+n), which the caller has checked to exist. Valid until the next call.
func (s *source) view(off, n int64) ([]byte, error) {
	if s.file == nil {
		return s.mem[off : off+n], nil
	}
	if int64(cap(s.win)) < n {
		s.win = make([]byte, max(n, min(windowSize, s.size)))
	}
	b := s.win[:n]
	if err := readFull(s.file, b, s.base+off); err != nil {
		return nil, err
	}
	return b, nil
}

// checksum continues crc over [off, off+n).
func (s *source) checksum(crc uint32, tab *crc32.Table, off, n int64) (uint32, error) {
	for n > 0 {
		part := n
		if s.file != nil {
			part = min(n, windowSize)
		}
		b, err := s.view(off, part)
		if err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, tab, b)
		off, n = off+part, n-part
	}
	return crc, nil
}

// sectorSize is what a disk writes whole or not at all.
const sectorSize = 512

// minZeroTail is the least run of zeros at the end of a file that is taken for unwritten space when it does not
// begin at a sector. A message ends with up to 7 bytes of padding and often with a few zeros of its last column.
const minZeroTail = 64

// lost reports whether [from, to) holds what a power loss leaves of bytes that were never written when the size
// of the file was: a sector of the file that shows nothing but zeros where it holds a part of the range, or a run
// of zeros from within the range to the end. Columns hold such runs too, so this alone never decides.
func (s *source) lost(from, to int64) (bool, error) {
	for off := from; off < to; {
		next := min(s.nextSector(off), to)
		b, err := s.view(off, next-off)
		if err != nil {
			return false, err
		}
		if len(bytes.Trim(b, "\x00")) == 0 {
			return true, nil
		}
		off = next
	}
	zero, err := s.zeroFrom()
	return zero < to && s.size-zero >= minZeroTail, err
}

// zeroFrom returns where the run of zeros begins that ends the body.
func (s *source) zeroFrom() (int64, error) {
	for end := s.size; end > 0; {
		part := min(end, windowSize)
		b, err := s.view(end-part, part)
		if err != nil {
			return 0, err
		}
		if kept := len(bytes.TrimRight(b, "\x00")); kept > 0 {
			return end - part + int64(kept), nil
		}
		end -= part
	}
	return 0, nil
}

// nextSector returns where the sector that holds off ends, or the body.
func (s *source) nextSector(off int64) int64 {
	return min((s.base+off)/sectorSize*sectorSize+sectorSize-s.base, s.size)
}

// readFull fills b from offset off. An end of file means that the file shrank since its size was taken.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at %d: %w", len(b), off, err)
}

// clone returns a source over the same body with a window of its own.
func (s *source) clone() *source {
	c := *s
	c.win = nil
	return &c
}
