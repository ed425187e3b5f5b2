package frame

import (
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

// minHole is the shortest run of zeros that is taken for bytes that a power loss kept from the disk. A disk
// loses whole sectors of 512, but the last piece of a lost write may share its sector with what followed. A
// file system that does not order data and size leaves such runs; so do many columns, which is why a hole
// alone never decides.
const minHole = 64

// hole reports whether [from, to) holds the start of a run of at least minHole zero bytes, or nothing but zeros
// from its first byte to the end of the body.
func (s *source) hole(from, to int64) (bool, error) {
	run, all := int64(0), true
	for off := from; off < s.size; {
		b, err := s.view(off, min(s.size-off, windowSize))
		if err != nil {
			return false, err
		}
		for i, c := range b {
			if c != 0 {
				if off+int64(i) >= to {
					return false, nil
				}
				run, all = 0, false
				continue
			}
			if run++; run >= minHole {
				return true, nil
			}
		}
		off += int64(len(b))
	}
	return all, nil
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
