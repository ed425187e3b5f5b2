package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	iceio "github.com/apache/iceberg-go/io"

	"github.com/siglakecol/siglakecol/internal/objstore"
)

// objectSchemes are the stores that are buckets.
func objectSchemes() []string { return []string{"s3", "gs", "azblob"} }

// isObject tells whether a location is in a bucket.
func isObject(location string) bool {
	scheme, _, ok := strings.Cut(location, "://")
	return ok && slices.Contains(objectSchemes(), scheme)
}

// fullIO is all that a lake and iceberg-go ask of a store.
type fullIO interface {
	iceio.ReadFileIO
	iceio.WriteFileIO
	iceio.ListableIO
}

// stores is the IO of a lake: the local disk, and one IO per bucket, opened when something in it is first asked for. A
// table may lie in another bucket than the warehouse of new tables.
type stores struct {
	s3       objstore.S3
	patience time.Duration

	mu      sync.Mutex
	buckets map[string]*objectIO // by scheme://bucket
}

var _ fullIO = (*stores)(nil)

func newStores(opt objstore.S3, patience time.Duration) *stores {
	return &stores{s3: opt, patience: patience, buckets: map[string]*objectIO{}}
}

// at returns the IO that a location belongs to.
func (s *stores) at(location string) (fullIO, error) {
	if !isObject(location) {
		local, err := iceio.LoadFS(context.Background(), nil, location)
		if err != nil {
			return nil, err
		}
		full, ok := local.(fullIO)
		if !ok {
			return nil, fmt.Errorf("%T cannot read, write and list", local)
		}
		return full, nil
	}
	scheme, rest, _ := strings.Cut(location, "://")
	name, _, _ := strings.Cut(rest, "/")
	if name == "" {
		return nil, fmt.Errorf("location %q names no bucket", location)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	home := scheme + "://" + name
	if o := s.buckets[home]; o != nil {
		return o, nil
	}
	o, err := openObjects(home, s.s3, s.patience)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", home, err)
	}
	s.buckets[home] = o
	return o, nil
}

// Open opens a file or an object for reading.
func (s *stores) Open(name string) (iceio.File, error) {
	at, err := s.at(name)
	if err != nil {
		return nil, err
	}
	return at.Open(name)
}

// ReadFile reads a whole file or object.
func (s *stores) ReadFile(name string) ([]byte, error) {
	at, err := s.at(name)
	if err != nil {
		return nil, err
	}
	return at.ReadFile(name)
}

// Remove removes a file or an object.
func (s *stores) Remove(name string) error {
	at, err := s.at(name)
	if err != nil {
		return err
	}
	return at.Remove(name)
}

// Create starts a file or an object. It is there, and durable, once Close has returned nil.
func (s *stores) Create(name string) (iceio.FileWriter, error) {
	at, err := s.at(name)
	if err != nil {
		return nil, err
	}
	return at.Create(name)
}

// WriteFile writes a whole file or object; durable on return.
func (s *stores) WriteFile(name string, content []byte) error {
	at, err := s.at(name)
	if err != nil {
		return err
	}
	return at.WriteFile(name, content)
}

// WalkDir calls fn for what is below root.
func (s *stores) WalkDir(root string, fn fs.WalkDirFunc) error {
	at, err := s.at(root)
	if err != nil {
		return err
	}
	return at.WalkDir(root, fn)
}

// Close lets go of the buckets.
func (s *stores) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, o := range s.buckets {
		errs = append(errs, o.Close())
	}
	clear(s.buckets)
	return errors.Join(errs...)
}

// storesKey carries a lake's stores to the factories that registerIO registers.
type storesKey struct{}

// with lets iceberg-go find the stores in ctx: a SQL catalog reads and writes metadata.json through the registry of
// iceberg-go, which knows of no lake.
func (s *stores) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, storesKey{}, s)
}

// ioOf is storesOf for iceberg-go.
func ioOf(ctx context.Context) (iceio.IO, error) { return storesOf(ctx) }

// storesOf is what with put there.
func storesOf(ctx context.Context) (*stores, error) {
	s, ok := ctx.Value(storesKey{}).(*stores)
	if !ok {
		return nil, errors.New("an object store was asked for without its lake")
	}
	return s, nil
}
