package objstore

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the digest that every object store can check and show; not for security
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"sync"
)

// chunk is how much is read at once, in bytes.
const chunk = 128 << 10

// chunks are buffers of that size.
var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// Content is what becomes an object: bytes that do not change and can be read any number of times. Its digests are computed when
// they are asked for, and once. Not safe for use by several goroutines at a time.
type Content struct {
	r    io.ReaderAt
	size int64
	crc  *uint32
	md5  []byte
}

// NewContent is the first size bytes of r.
func NewContent(r io.ReaderAt, size int64) *Content { return &Content{r: r, size: size} }

// Size is in bytes.
func (c *Content) Size() int64 { return c.size }

// Reader reads from the start, and can seek.
func (c *Content) Reader() *io.SectionReader { return io.NewSectionReader(c.r, 0, c.size) }

// CRC32 is the CRC-32 (IEEE) of the bytes. It costs a thirtieth of an MD5.
func (c *Content) CRC32() (uint32, error) {
	if c.crc == nil {
		h := crc32.NewIEEE()
		if err := c.digest(h); err != nil {
			return 0, err
		}
		sum := h.Sum32()
		c.crc = &sum
	}
	return *c.crc, nil
}

// MD5 is the MD5 of the bytes.
func (c *Content) MD5() ([]byte, error) {
	if c.md5 == nil {
		h := md5.New() //nolint:gosec // see the import
		if err := c.digest(h); err != nil {
			return nil, err
		}
		c.md5 = h.Sum(nil)
	}
	return c.md5, nil
}

func (c *Content) digest(h hash.Hash) error {
	return c.each(func(part []byte) error {
		_, err := h.Write(part)
		return err
	})
}

// each shows the bytes in order, at most a chunk at a time. part is valid during the call.
func (c *Content) each(show func(part []byte) error) error {
	buf := chunks.Get().(*[chunk]byte) //nolint:errcheck,forcetypeassert // nothing else is in it
	defer chunks.Put(buf)
	for off := int64(0); off < c.size; {
		part := buf[:min(chunk, c.size-off)]
		n, err := c.r.ReadAt(part, off)
		if n < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if err := show(part); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// errOther says that bytes differ.
var errOther = errors.New("objstore: other bytes")

// Holds tells whether the object of info is c. The digest that the store shows decides where it is the right one; where it shows
// another or none, the uploader's claim does, and without one the object is read and compared byte by byte.
func Holds(ctx context.Context, s Store, info Info, c *Content) (bool, error) {
	if info.Size != c.size {
		return false, nil
	}
	if info.CRC32 != nil {
		sum, err := c.CRC32()
		if err != nil || sum == *info.CRC32 {
			return err == nil, err
		}
	} else if shown := info.MD5; shown != nil || info.Claimed != nil {
		if shown == nil {
			shown = info.Claimed
		}
		sum, err := c.MD5()
		if err != nil || bytes.Equal(sum, shown) {
			return err == nil, err
		}
	}
	return compare(ctx, s, info.Key, c)
}

// compare reads the object.
func compare(ctx context.Context, s Store, key string, c *Content) (same bool, err error) {
	r, err := s.Get(ctx, key)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	there := chunks.Get().(*[chunk]byte) //nolint:errcheck,forcetypeassert // nothing else is in it
	defer chunks.Put(there)
	err = c.each(func(part []byte) error {
		got := there[:len(part)]
		switch _, err := io.ReadFull(r, got); {
		case err != nil:
			return fmt.Errorf("read %s: %w", key, err)
		case !bytes.Equal(got, part):
			return errOther
		}
		return nil
	})
	if errors.Is(err, errOther) {
		return false, nil
	}
	return err == nil, err
}
