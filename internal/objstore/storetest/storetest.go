// Package storetest is a store in memory with the faults of real ones, for tests.
package storetest

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/internal/objstore"
)

// Op is one call of a store.
type Op struct {
	Kind string // put, replace, get, stat, list, delete
	Key  string
}

// Fault is how a call goes wrong.
type Fault struct {
	Err error
	// After: the call does its work first, and the answer is lost.
	After bool
	// Hang: it does nothing and waits for its ctx.
	Hang bool
	// Lie: it answers that it has worked and has done nothing.
	Lie bool
	// Cut: a read ends with Err after that many bytes; 0: from the start.
	Cut int64
}

// Store implements objstore.Store. The zero value is empty and works.
type Store struct {
	mu      sync.Mutex
	objects map[string][]byte
	ops     []Op
	hook    func(Op) *Fault
	hookMu  sync.Mutex // held while hook runs
	// NoDigest: the store does not tell the CRC of an object, as some real ones.
	NoDigest bool
	// Careless: a Put replaces what is there, as in stores that do not know If-None-Match.
	Careless bool
	// Clock gives the times that Stat tells; nil: the epoch.
	Clock func() time.Time
}

// SetHook has f decide about each call from now on; nil: it works.
func (s *Store) SetHook(f func(Op) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = f
}

// Ops are the calls so far.
func (s *Store) Ops() []Op {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ops)
}

// Objects are the objects that are there.
func (s *Store) Objects() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

// Set puts an object there whatever was.
func (s *Store) Set(key string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string][]byte{}
	}
	s.objects[key] = bytes.Clone(body)
}

// Remove takes an object away.
func (s *Store) Remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

// begin logs a call and returns its fault. skip: the call does nothing and returns err.
func (s *Store) begin(ctx context.Context, kind, key string) (f *Fault, skip bool, err error) {
	s.mu.Lock()
	op := Op{kind, key}
	s.ops = append(s.ops, op)
	hook := s.hook
	s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, true, fmt.Errorf("%s %s: %w", kind, key, err)
	}
	if hook != nil {
		s.hookMu.Lock()
		f = hook(op)
		s.hookMu.Unlock()
	}
	switch {
	case f == nil:
		return &Fault{}, false, nil
	case f.Hang:
		<-ctx.Done()
		return f, true, fmt.Errorf("%s %s: %w", kind, key, ctx.Err())
	case f.Lie:
		return f, true, nil
	case f.After || f.Cut > 0:
		return f, false, nil
	default:
		return f, true, fmt.Errorf("%s %s: %w", kind, key, f.Err)
	}
}

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, c *objstore.Content) error {
	f, skip, err := s.begin(ctx, "put", key)
	if skip {
		return err
	}
	return s.write(key, c, true, f)
}

// Replace implements objstore.Store.
func (s *Store) Replace(ctx context.Context, key string, c *objstore.Content) error {
	f, skip, err := s.begin(ctx, "replace", key)
	if skip {
		return err
	}
	return s.write(key, c, false, f)
}

func (s *Store) write(key string, c *objstore.Content, fresh bool, f *Fault) error {
	body, err := io.ReadAll(c.Reader())
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	announced, err := c.CRC32()
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	if got := crc32.ChecksumIEEE(body); got != announced || int64(len(body)) != c.Size() {
		return fmt.Errorf("put %s: BadDigest: %d bytes of %x came, %d of %x were announced", key, len(body), got, c.Size(), announced)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[key]; taken && fresh && !s.Careless {
		return fmt.Errorf("put %s: %w", key, objstore.ErrExists)
	}
	if s.objects == nil {
		s.objects = map[string][]byte{}
	}
	s.objects[key] = body
	if f.Err != nil {
		return fmt.Errorf("put %s: %w", key, f.Err)
	}
	return nil
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	f, skip, err := s.begin(ctx, "get", key)
	if skip {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.objects[key]
	if !ok {
		return nil, fmt.Errorf("get %s: %w", key, objstore.ErrNotFound)
	}
	if f.Cut > 0 {
		return io.NopCloser(io.MultiReader(bytes.NewReader(body[:min(f.Cut, int64(len(body)))]), broken{f.Err})), nil
	}
	return io.NopCloser(bytes.NewReader(body)), nil
}

// broken is a connection that was reset.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// Stat implements objstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	_, skip, err := s.begin(ctx, "stat", key)
	if skip {
		return objstore.Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.objects[key]
	if !ok {
		return objstore.Info{}, fmt.Errorf("stat %s: %w", key, objstore.ErrNotFound)
	}
	info := objstore.Info{Key: key, Size: int64(len(body)), ModTime: time.Unix(0, 0)}
	if s.Clock != nil {
		info.ModTime = s.Clock()
	}
	if !s.NoDigest {
		sum := crc32.ChecksumIEEE(body)
		info.CRC32 = &sum
	}
	return info, nil
}

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, prefix string, found func(objstore.Info) error) error {
	_, skip, err := s.begin(ctx, "list", prefix)
	if skip {
		return err
	}
	there := s.Objects()
	for _, key := range slices.Sorted(maps.Keys(there)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if err := found(objstore.Info{Key: key, Size: int64(len(there[key]))}); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements objstore.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	f, skip, err := s.begin(ctx, "delete", key)
	if skip {
		return err
	}
	s.Remove(key)
	if f.Err != nil {
		return fmt.Errorf("delete %s: %w", key, f.Err)
	}
	return nil
}

// Close implements objstore.Store.
func (s *Store) Close() error { return nil }
