package objstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// bucket is a store behind gocloud.dev.
type bucket struct{ b *blob.Bucket }

// contentType of every object: nothing is guessed from the bytes.
const contentType = "application/octet-stream"

// digestKey is the user metadata that holds the MD5 of an object in hex, for stores whose ETag is something else.
const digestKey = "siglake-md5"

// Put implements Store.
func (s *bucket) Put(ctx context.Context, key string, c *Content) error {
	return s.write(ctx, key, c, true)
}

// Replace implements Store.
func (s *bucket) Replace(ctx context.Context, key string, c *Content) error {
	return s.write(ctx, key, c, false)
}

func (s *bucket) write(ctx context.Context, key string, c *Content, fresh bool) error {
	sum, err := c.MD5()
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	// Without the cancel a reader that fails in the middle would publish what came before.
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.b.NewWriter(writing, key, &blob.WriterOptions{
		ContentType: contentType, ContentMD5: sum, IfNotExist: fresh,
		Metadata: map[string]string{digestKey: hex.EncodeToString(sum)},
	})
	if err != nil {
		return s.explain("put", key, err)
	}
	if _, err = io.Copy(w, c.Reader()); err != nil {
		cancel()
	}
	return s.explain("put", key, errors.Join(err, w.Close()))
}

// Get implements Store.
func (s *bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := s.b.NewReader(ctx, key, nil)
	if err != nil {
		return nil, s.explain("get", key, err)
	}
	return r, nil
}

// Stat implements Store.
func (s *bucket) Stat(ctx context.Context, key string) (Info, error) {
	a, err := s.b.Attributes(ctx, key)
	if err != nil {
		return Info{}, s.explain("stat", key, err)
	}
	info := Info{Key: key, Size: a.Size, ModTime: a.ModTime, MD5: a.MD5}
	info.Claimed = claimed(a.Metadata)
	return info, nil
}

// claimed is the digest that the uploader wrote beside an object.
func claimed(metadata map[string]string) []byte {
	sum, err := hex.DecodeString(metadata[digestKey])
	if err != nil || len(sum) == 0 {
		return nil
	}
	return sum
}

// List implements Store.
func (s *bucket) List(ctx context.Context, prefix string, found func(Info) error) error {
	it := s.b.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.explain("list", cmp.Or(prefix, "all objects"), err)
		}
		if o.IsDir {
			continue
		}
		if err := found(Info{Key: o.Key, Size: o.Size, ModTime: o.ModTime, MD5: o.MD5}); err != nil {
			return err
		}
	}
}

// Delete implements Store.
func (s *bucket) Delete(ctx context.Context, key string) error {
	err := s.explain("delete", key, s.b.Delete(ctx, key))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Close implements Store.
func (s *bucket) Close() error { return s.b.Close() }

// explain names the step and marks what callers branch on.
func (s *bucket) explain(step, key string, err error) error {
	if err == nil {
		return nil
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		err = mark(err, ErrNotFound)
	case gcerrors.FailedPrecondition:
		err = mark(err, ErrExists)
	}
	return fmt.Errorf("%s %s: %w", step, key, err)
}

// mark makes err one of kind, too.
func mark(err, kind error) error { return &marked{err, kind} }

type marked struct{ err, kind error }

func (m *marked) Error() string   { return m.err.Error() }
func (m *marked) Unwrap() []error { return []error{m.err, m.kind} }
