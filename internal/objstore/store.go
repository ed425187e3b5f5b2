package objstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// Errors that callers branch on.
var (
	ErrExists   = errors.New("objstore: the object exists")
	ErrNotFound = errors.New("objstore: no such object")
	ErrSpecial  = errors.New("objstore: no regular file, but a FIFO, a socket or a device")
)

// Info describes an object.
type Info struct {
	Key     string // below the URL the store was opened with
	Size    int64  // bytes
	ModTime time.Time
	// CRC32 is what the store says of the bytes it holds; nil where it does not say. Only Stat fills it.
	CRC32 *uint32
	// MD5 is what the store says of the bytes it holds; nil where it does not say.
	MD5 []byte
	// Claimed is the MD5 that the uploader wrote beside the object and the store checked on arrival; nil without.
	// Only Stat fills it.
	Claimed []byte
}

// Store holds objects. Keys are relative to the URL it was opened with, with slashes, and never begin with one.
// Safe for use by many goroutines. ctx ends each call; its error then wraps ctx's.
type Store interface {
	// Put makes an object of c and returns when the store has it durably. ErrExists when the key is taken. After any
	// other error the object may be there, whole, or not: Stat tells. The store is sent a digest and asked to refuse
	// other bytes.
	Put(ctx context.Context, key string, c *Content) error
	// Replace is Put over what is there.
	Replace(ctx context.Context, key string, c *Content) error
	// Get opens an object for reading. ErrNotFound; ErrSpecial in a directory. The caller closes.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Stat describes an object. ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)
	// List calls found for each object whose key begins with prefix, in the order of the keys.
	List(ctx context.Context, prefix string, found func(Info) error) error
	// Delete removes an object. One that is not there is no error. Durable when it returns nil.
	Delete(ctx context.Context, key string) error
	Close() error
}
