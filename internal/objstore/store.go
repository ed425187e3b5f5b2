package objstore

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the digest that every object store can check and show; not for security
	"errors"
	"fmt"
	"io"
	"time"
)

// Errors that callers branch on.
var (
	ErrExists   = errors.New("objstore: the object exists")
	ErrNotFound = errors.New("objstore: no such object")
)

// digestKey is the user metadata that holds the MD5 of an object in hex, for stores whose ETag is something else.
const digestKey = "siglake-md5"

// Info describes an object.
type Info struct {
	Key     string // below the URL the store was opened with
	Size    int64  // bytes
	ModTime time.Time
	// MD5 is what the store says of the bytes it holds; nil where it does not say.
	MD5 []byte
	// Claimed is the MD5 that the uploader wrote beside the object and the store checked on arrival; nil without.
	// Only Stat fills it.
	Claimed []byte
}

// Store holds objects. Keys are relative to the URL it was opened with, with slashes, and never begin with one.
// Safe for use by many goroutines. ctx ends each call; its error then wraps ctx's.
type Store interface {
	// Put makes an object of the size bytes of r and returns when the store has it durably. ErrExists when the key
	// is taken. After any other error the object may be there, whole, or not: Stat tells. sum is the MD5 of the
	// bytes; the store is asked to refuse others.
	Put(ctx context.Context, key string, r io.ReaderAt, size int64, sum []byte) error
	// Replace is Put over what is there.
	Replace(ctx context.Context, key string, r io.ReaderAt, size int64, sum []byte) error
	// Get opens an object for reading. ErrNotFound. The caller closes.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Stat describes an object. ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)
	// List calls found for each object whose key begins with prefix, in the order of the keys.
	List(ctx context.Context, prefix string, found func(Info) error) error
	// Delete removes an object. One that is not there is no error. Durable when it returns nil.
	Delete(ctx context.Context, key string) error
	Close() error
}

// Sum is the MD5 of size bytes of r.
func Sum(r io.ReaderAt, size int64) ([]byte, error) {
	h := md5.New() //nolint:gosec // see the import
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, size)); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// Holds tells whether the object of info is the size bytes whose MD5 is sum. The store's own digest decides where it
// is the right one; where it shows another or none, the uploader's claim does, and without one the object is read.
func Holds(ctx context.Context, s Store, info Info, size int64, sum []byte) (bool, error) {
	switch {
	case info.Size != size:
		return false, nil
	case bytes.Equal(info.MD5, sum):
		return true, nil
	case info.MD5 == nil && bytes.Equal(info.Claimed, sum):
		return true, nil
	}
	r, err := s.Get(ctx, info.Key)
	if err != nil {
		return false, err
	}
	h := md5.New() //nolint:gosec // see the import
	n, err := io.Copy(h, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return false, fmt.Errorf("read %s: %w", info.Key, err)
	}
	return n == size && bytes.Equal(h.Sum(nil), sum), nil
}
