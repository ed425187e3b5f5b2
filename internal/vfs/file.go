package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// tempSuffix marks a file that WriteFile has not published. Whoever owns the directory removes what a crash
// left; WriteFile removes what it finds under the name it needs.
const tempSuffix = ".tmp"

// IsTemp tells whether a name is an unpublished file of WriteFile.
func IsTemp(name string) bool { return filepath.Ext(name) == tempSuffix }

// TempName is what a crash may leave of WriteFile and WriteNew of name.
func TempName(name string) string { return name + tempSuffix }

// WriteFile puts data under name, whole or not at all: temporary file in the same directory, Sync, Rename,
// SyncDir. A crash leaves the old content or the new, and perhaps name+".tmp". Durable when it returns nil;
// after an error the old or the new content may be there. Idempotent. Not safe for two calls on one name at
// once: the caller holds the lock that guards the directory.
func WriteFile(fsys FS, name string, data []byte) error {
	temp := TempName(name)
	if err := writeTemp(fsys, temp, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fsys.Rename(temp, name); err != nil {
		return fmt.Errorf("publish %s: %w", name, err)
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// WriteNew is WriteFile for a name that nobody has: fs.ErrExist, and nothing was changed, where it is taken. A crash
// leaves the file whole or not at all, and perhaps name+".tmp". Safe beside others who make other names.
func WriteNew(fsys FS, name string, data []byte) error {
	temp := TempName(name)
	if err := writeTemp(fsys, temp, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	err := LinkNew(fsys, temp, name)
	if rerr := fsys.Remove(temp); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	if err != nil {
		return fmt.Errorf("publish %s: %w", name, err)
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// LinkNew gives a finished temporary file the name unless it is taken: fs.ErrExist. Where the volume refuses links, a
// look and a rename must do; then two at once are not safe. Nothing is synced, and temp may be gone or not.
func LinkNew(fsys FS, temp, name string) error {
	err := fsys.Link(temp, name)
	if !NoLinks(err) {
		return err
	}
	switch _, serr := fsys.Stat(name); {
	case serr == nil:
		return fs.ErrExist
	case !errors.Is(serr, fs.ErrNotExist):
		return serr
	}
	return fsys.Rename(temp, name)
}

func writeTemp(fsys FS, temp string, data []byte) error {
	f, err := fsys.Create(temp)
	if errors.Is(err, fs.ErrExist) {
		if err := fsys.Remove(temp); err != nil {
			return err
		}
		f, err = fsys.Create(temp)
	}
	if err != nil {
		return err
	}
	_, err = f.Writev([][]byte{data})
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		_ = fsys.Remove(temp) // best effort: a leftover is harmless and removed by the next call
	}
	return err
}

// maxReadFile bounds ReadFile, which serves small records (owner, head, notes, markers) and never segments.
// 1 MiB is 1,000 times the largest of them.
const maxReadFile = 1 << 20

// ReadFile returns the content of a small file, at most 1 MiB; fs.ErrNotExist if there is none.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if st.Size > maxReadFile {
		return nil, fmt.Errorf("read %s: %d bytes, more than the %d allowed", name, st.Size, maxReadFile)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, st.Size))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}
