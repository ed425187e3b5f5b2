package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	iceio "github.com/apache/iceberg-go/io"
)

// This file is the only one of the package that calls the operating system's file functions. The warehouse is not
// reached through internal/vfs because iceberg-go writes manifests and metadata through its own IO interface, and one
// way to the disk is better than two: whatever lies in the warehouse was written, and synced, here.

// disk is what syncIO changes the disk with. Tests record its calls or fail them.
type disk interface {
	// create makes or empties a file for writing.
	create(path string) (diskFile, error)
	// mkdir makes one directory; fs.ErrExist if it is there.
	mkdir(path string) error
	// syncDir makes the names in a directory durable.
	syncDir(path string) error
	remove(path string) error
}

type diskFile interface {
	io.Writer
	Sync() error
	Close() error
}

type osDisk struct{}

func (osDisk) create(path string) (diskFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
}

func (osDisk) mkdir(path string) error { return os.Mkdir(path, 0o750) }

func (osDisk) remove(path string) error { return os.Remove(path) }

func (osDisk) syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// dirExists tells whether path is a directory.
func dirExists(path string) (bool, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	default:
		return info.IsDir(), nil
	}
}

// fileExists tells whether path is a file.
func fileExists(path string) (bool, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	default:
		return info.Mode().IsRegular(), nil
	}
}

// syncIO is iceberg-go's IO on a local disk, with the two things its own LocalFS lacks: a file is synced when it is
// closed, and so is each directory that got a new name. It offers no rename and no recursive removal.
type syncIO struct {
	disk disk

	mu sync.Mutex
	// durable holds directories whose names, up to the root, are known to be on disk.
	durable map[string]struct{}
}

var (
	_ iceio.ReadFileIO  = (*syncIO)(nil)
	_ iceio.WriteFileIO = (*syncIO)(nil)
	_ iceio.ListableIO  = (*syncIO)(nil)
)

func newSyncIO(d disk) *syncIO { return &syncIO{disk: d, durable: map[string]struct{}{}} }

// localPath turns a location (a path or a URL without host) into a path.
func localPath(name string) (string, error) {
	if !strings.Contains(name, "://") {
		return name, nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return "", fmt.Errorf("parse location %q: %w", name, err)
	}
	if u.Host != "" && u.Host != "localhost" {
		return "", fmt.Errorf("location %q names the host %q: want a local path", name, u.Host)
	}
	return filepath.FromSlash(u.Path), nil
}

func (s *syncIO) Open(name string) (iceio.File, error) {
	path, err := localPath(name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

func (s *syncIO) ReadFile(name string) ([]byte, error) {
	path, err := localPath(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func (s *syncIO) Remove(name string) error {
	path, err := localPath(name)
	if err != nil {
		return err
	}
	return s.disk.remove(path)
}

func (s *syncIO) WalkDir(root string, fn fs.WalkDirFunc) error {
	return iceio.LocalFS{}.WalkDir(root, fn)
}

// Create starts a file. It is durable once Close has returned nil, its name and its directories included.
func (s *syncIO) Create(name string) (iceio.FileWriter, error) {
	path, err := localPath(name)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if err := s.makeDir(dir); err != nil {
		return nil, err
	}
	f, err := s.disk.create(path)
	if errors.Is(err, fs.ErrNotExist) {
		// Someone removed the directory since we made it.
		s.forget(dir)
		if err = s.makeDir(dir); err == nil {
			f, err = s.disk.create(path)
		}
	}
	if err != nil {
		return nil, err
	}
	return &syncedFile{io: s, dir: dir, f: f}, nil
}

// WriteFile writes a whole file; durable on return.
func (s *syncIO) WriteFile(name string, content []byte) error {
	w, err := s.Create(name)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}

// makeDir makes dir and what is missing above it; durable on return. A directory that is there already is synced
// once all the same: whoever made it may not have lived to do that.
func (s *syncIO) makeDir(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.makeDirLocked(dir)
}

func (s *syncIO) makeDirLocked(dir string) error {
	parent := filepath.Dir(dir)
	if _, ok := s.durable[dir]; ok || parent == dir {
		return nil
	}
	if err := s.makeDirLocked(parent); err != nil {
		return err
	}
	err := s.disk.mkdir(dir)
	existed := errors.Is(err, fs.ErrExist)
	if err != nil && !existed {
		return err
	}
	// An ancestor we may not even read, such as a home directory's parent, was not made by this program.
	if err := s.disk.syncDir(parent); err != nil && (!existed || !errors.Is(err, fs.ErrPermission)) {
		return err
	}
	s.durable[dir] = struct{}{}
	return nil
}

func (s *syncIO) forget(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := dir; p != filepath.Dir(p); p = filepath.Dir(p) {
		delete(s.durable, p)
	}
}

type syncedFile struct {
	io     *syncIO
	dir    string
	f      diskFile
	closed bool
}

func (w *syncedFile) Write(p []byte) (int, error) { return w.f.Write(p) }

func (w *syncedFile) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w.f}, r)
}

// Close syncs the file, closes it and syncs its name. A second Close does nothing.
func (w *syncedFile) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	err := w.f.Sync()
	if cerr := w.f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return w.io.disk.syncDir(w.dir)
}

// registerMu serialises registerIO. The state it guards is iceberg-go's, not ours.
var registerMu sync.Mutex

// registerIO makes iceberg-go use syncIO for local locations ("file" URLs and bare paths), and the stores of the lake
// that is at work for those in buckets, in this whole process. The registry is global and the SQL catalog takes the IO of metadata.json from nowhere else, so a lake cannot bring
// an IO of its own. Called by every Open, does its work once; not an init function, because merely linking this
// package must not change how another user of iceberg-go in the process writes files.
func registerIO(ctx context.Context) error {
	registerMu.Lock()
	defer registerMu.Unlock()
	for scheme, probe := range map[string]string{"file": "file:///", "": "/"} {
		current, err := iceio.LoadFS(ctx, nil, probe)
		if err != nil && !errors.Is(err, iceio.ErrIOSchemeNotFound) {
			return fmt.Errorf("probe the IO of local files: %w", err)
		}
		if _, ours := current.(*syncIO); ours {
			continue
		}
		shared := newSyncIO(osDisk{})
		iceio.Unregister(scheme)
		iceio.Register(scheme, func(context.Context, *url.URL, map[string]string) (iceio.IO, error) { return shared, nil })
	}
	known := iceio.GetRegisteredSchemes()
	for _, scheme := range objectSchemes() {
		if !slices.Contains(known, scheme) {
			iceio.Register(scheme, func(ctx context.Context, _ *url.URL, _ map[string]string) (iceio.IO, error) { return ioOf(ctx) })
		}
	}
	return nil
}
