package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/siglakecol/siglakecol/internal/objstore"
)

const (
	// partBytes and partsAtOnce bound what an object being written holds in memory: the SDK gathers twice partBytes
	// before it sends the first part, and has a buffer for each part at once and one more. S3 takes 10,000 parts: 80 GiB.
	partBytes   = 8 << 20
	partsAtOnce = 2
	// stepBytes is how much is handed over or taken at a time: each such step has the store's whole patience.
	stepBytes = 1 << 20
)

// errStalled ends a transfer that does not get on.
var errStalled = errors.New("the object store did not get on")

// objectIO is iceberg-go's IO on a bucket. An object is there, whole and durable, once the Close of its writer has
// returned nil, and not at all otherwise. Nothing is written over: each name that iceberg-go or this package makes holds
// a UUID. A step that takes longer than patience ends the transfer.
type objectIO struct {
	home     string // scheme://bucket
	bucket   *blob.Bucket
	patience time.Duration
	idle     func() // closes idle connections
}

var _ fullIO = (*objectIO)(nil)

// openObjects opens a bucket, given as scheme://name, without talking to it.
func openObjects(home string, opt objstore.S3, patience time.Duration) (*objectIO, error) {
	b, idle, err := objstore.OpenBucket(home, opt)
	if err != nil {
		return nil, err
	}
	return &objectIO{home: home, bucket: b, patience: patience, idle: idle}, nil
}

// key is the name of an object in the bucket. It is taken as it is written: names of objects know no escapes.
func (o *objectIO) key(location string) (string, error) {
	key, ok := strings.CutPrefix(location, o.home+"/")
	if !ok || key == "" {
		return "", fmt.Errorf("location %q is no object of %s", location, o.home)
	}
	return key, nil
}

// explain gives an error the form that iceberg-go expects.
func explain(step, location string, err error) error {
	if err == nil {
		return nil
	}
	if gcerrors.Code(err) == gcerrors.NotFound {
		err = &absentError{err}
	}
	return &fs.PathError{Op: step, Path: location, Err: err}
}

// absentError is fs.ErrNotExist with what the store said.
type absentError struct{ error }

func (e *absentError) Is(target error) bool { return target == fs.ErrNotExist }

func (e *absentError) Unwrap() error { return e.error }

// transfer is a conversation with the store that is ended when one step of it takes too long.
type transfer struct {
	ctx      context.Context
	end      context.CancelCauseFunc
	patience time.Duration
}

func (o *objectIO) transfer() transfer {
	ctx, end := context.WithCancelCause(context.Background())
	return transfer{ctx, end, o.patience}
}

// step runs f. f must end when the transfer's context does.
func (t transfer) step(f func() error) error {
	timer := time.AfterFunc(t.patience, func() { t.end(fmt.Errorf("%w for %s", errStalled, t.patience)) })
	defer timer.Stop()
	err := f()
	if cause := context.Cause(t.ctx); err != nil && errors.Is(cause, errStalled) {
		return errors.Join(cause, err)
	}
	return err
}

// Remove removes an object.
func (o *objectIO) Remove(location string) error {
	key, err := o.key(location)
	if err != nil {
		return err
	}
	t := o.transfer()
	defer t.end(nil)
	return explain("remove", location, t.step(func() error { return o.bucket.Delete(t.ctx, key) }))
}

// Open looks whether the object is there, and how large it is. What is read is fetched then, and no more.
func (o *objectIO) Open(location string) (iceio.File, error) {
	key, err := o.key(location)
	if err != nil {
		return nil, err
	}
	t := o.transfer()
	defer t.end(nil)
	var attrs *blob.Attributes
	err = t.step(func() error {
		attrs, err = o.bucket.Attributes(t.ctx, key)
		return err
	})
	if err != nil {
		return nil, explain("open", location, err)
	}
	return &objectFile{o: o, location: location, key: key, size: attrs.Size, modTime: attrs.ModTime}, nil
}

// ReadFile reads a whole object.
func (o *objectIO) ReadFile(location string) ([]byte, error) {
	f, err := o.Open(location)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	return io.ReadAll(f)
}

// WriteFile writes a whole object.
func (o *objectIO) WriteFile(location string, content []byte) error {
	w, err := o.Create(location)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return errors.Join(err, w.Close())
	}
	return w.Close()
}

// WalkDir calls fn for each object below root, in the order of their names, and for root.
func (o *objectIO) WalkDir(root string, fn fs.WalkDirFunc) error {
	prefix := strings.Trim(strings.TrimPrefix(root, o.home), "/")
	if prefix != "" {
		prefix += "/"
	}
	if err := fn(root, object{name: path.Base(root), dir: true}, nil); err != nil {
		return err
	}
	t := o.transfer()
	defer t.end(nil)
	list := o.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		var found *blob.ListObject
		err := t.step(func() (err error) {
			found, err = list.Next(t.ctx)
			return err
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return explain("list", root, err)
		}
		if err := fn(o.home+"/"+found.Key, object{path.Base(found.Key), found.Size, found.ModTime, false}, nil); err != nil {
			return err
		}
	}
}

// Create starts an object. Without a Close that returns nil there is none.
func (o *objectIO) Create(location string) (iceio.FileWriter, error) {
	key, err := o.key(location)
	if err != nil {
		return nil, err
	}
	w := &objectWriter{transfer: o.transfer(), location: location, done: make(chan error, 1)}
	var out *io.PipeReader
	out, w.in = io.Pipe()
	go func() {
		err := o.bucket.Upload(w.ctx, key, out, &blob.WriterOptions{
			ContentType: "application/octet-stream", BufferSize: partBytes, MaxConcurrency: partsAtOnce,
		})
		_ = out.CloseWithError(err) // it has no error of its own; who writes on learns ours
		w.done <- err
	}()
	return w, nil
}

// Close lets go of the bucket.
func (o *objectIO) Close() error {
	err := o.bucket.Close()
	o.idle()
	return err
}

// objectWriter sends an object through a goroutine that Close awaits. The store shows it when Close has told it to.
type objectWriter struct {
	transfer
	location string
	in       *io.PipeWriter
	done     chan error // what became of the sending
	failed   error
	closed   bool
}

func (w *objectWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && w.failed == nil {
		part := p[:min(len(p), stepBytes)]
		var sent int
		err := w.step(func() (err error) {
			sent, err = w.in.Write(part)
			return err
		})
		n, p = n+sent, p[sent:]
		w.failed = explain("write", w.location, err)
	}
	return n, w.failed
}

func (w *objectWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r)
}

var errAbandoned = errors.New("abandoned")

// Abandon ends the sending: no object comes of it, and the parts that were sent are removed.
func (w *objectWriter) Abandon() {
	if w.failed == nil {
		w.failed = explain("write", w.location, errAbandoned)
	}
	_ = w.Close() // it fails, as it is meant to
}

// Close asks the store to show the object, unless a write failed before. A second Close returns what the first did.
func (w *objectWriter) Close() error {
	if w.closed {
		return w.failed
	}
	w.closed = true
	defer w.end(nil)
	// An error takes the place of the end, so that what was sent is not shown. The context stays: the SDK removes the
	// parts in it.
	_ = w.in.CloseWithError(w.failed) // it has no error of its own
	err := w.step(func() error { return <-w.done })
	if w.failed == nil {
		w.failed = explain("close", w.location, err)
	}
	return w.failed
}

// object is a name in a listing.
type object struct {
	name    string
	size    int64
	modTime time.Time
	dir     bool
}

func (i object) Name() string               { return i.name }
func (i object) Size() int64                { return i.size }
func (i object) ModTime() time.Time         { return i.modTime }
func (i object) IsDir() bool                { return i.dir }
func (i object) Sys() any                   { return nil }
func (i object) Info() (fs.FileInfo, error) { return i, nil }
func (i object) Type() fs.FileMode          { return i.Mode().Type() }

func (i object) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
