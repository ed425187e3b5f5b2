package objstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// tempSuffix ends the names of files being written. A crash leaves one; List does not show it.
const tempSuffix = ".tmp"

// tempLife is after which time since its last write a temporary file is a dead writer's. One attempt of the mirror is
// over within minutes.
const tempLife = time.Hour

// dir is a directory as a store. gocloud.dev's syncs nothing; here an object is durable, bytes and name, when Put
// returns.
type dir struct {
	fs   vfs.FS
	root string

	cleaned sync.Map // directories in which dead writers' files were looked for
}

func (d *dir) path(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// Put implements Store. A crash leaves the object, or a temporary file, which a later process removes that puts something
// beside it.
func (d *dir) Put(ctx context.Context, key string, c *Content) error {
	return d.write(ctx, key, c, d.publish)
}

// Replace implements Store.
func (d *dir) Replace(ctx context.Context, key string, c *Content) error {
	return d.write(ctx, key, c, d.fs.Rename)
}

func (d *dir) write(ctx context.Context, key string, c *Content, publish func(temp, name string) error) (err error) {
	name := d.path(key)
	if err := errors.Join(d.fs.MkdirAll(filepath.Dir(name)), d.clean(path.Dir(key))); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	temp, err := d.temp(ctx, name, c)
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	if err := publish(temp, name); err != nil {
		return fmt.Errorf("put %s: %w", key, errors.Join(err, d.remove(temp)))
	}
	// The parent is synced after both: a crash before leaves the object, or the temporary file, or both.
	if err := errors.Join(d.remove(temp), d.fs.SyncDir(filepath.Dir(name))); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// clean removes what dead writers left in a directory of keys and in those above it, once in a life.
func (d *dir) clean(keys string) error {
	if _, done := d.cleaned.LoadOrStore(keys, true); done {
		return nil
	}
	if keys != "." {
		if err := d.clean(path.Dir(keys)); err != nil {
			return err
		}
	}
	in := d.path(keys)
	entries, err := d.fs.List(in)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir || !strings.HasSuffix(e.Name, tempSuffix) {
			continue
		}
		info, err := d.fs.Stat(filepath.Join(in, e.Name))
		if err == nil && time.Since(info.ModTime) > tempLife {
			err = d.remove(filepath.Join(in, e.Name))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // its writer has finished
			return err
		}
	}
	return nil
}

// temp writes and syncs a file beside name.
func (d *dir) temp(ctx context.Context, name string, c *Content) (temp string, err error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	temp = name + "." + hex.EncodeToString(random[:]) + tempSuffix
	f, err := d.fs.Create(temp)
	if err != nil {
		return "", err
	}
	err = c.each(func(part []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := f.Writev([][]byte{part})
		return err
	})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, d.remove(temp))
	}
	return temp, nil
}

// publish gives the finished file its name unless that is taken.
func (d *dir) publish(temp, name string) error {
	err := vfs.LinkNew(d.fs, temp, name)
	if errors.Is(err, fs.ErrExist) {
		return mark(err, ErrExists)
	}
	return err
}

func (d *dir) remove(name string) error {
	if err := d.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Get implements Store.
func (d *dir) Get(_ context.Context, key string) (io.ReadCloser, error) {
	if info, err := d.fs.Stat(d.path(key)); err == nil && info.Special {
		return nil, fmt.Errorf("get %s: %w", key, ErrSpecial)
	}
	f, err := d.fs.Open(d.path(key))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, absent(err))
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, errors.Join(err, f.Close()))
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, 0, info.Size), f}, nil
}

// Stat implements Store. A directory keeps no digests: who wants to know reads the object.
func (d *dir) Stat(_ context.Context, key string) (Info, error) {
	info, err := d.fs.Stat(d.path(key))
	if err == nil && info.IsDir {
		err = syscall.EISDIR
	}
	if err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", key, absent(err))
	}
	return Info{Key: key, Size: info.Size, ModTime: info.ModTime}, nil
}

// absent marks the error of a name that is not there.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) {
		return mark(err, ErrNotFound)
	}
	return err
}

// List implements Store. A directory that is not there holds nothing.
func (d *dir) List(ctx context.Context, prefix string, found func(Info) error) error {
	sub := path.Dir(prefix + "x")
	if sub == "." {
		sub = ""
	}
	return d.list(ctx, sub, prefix, found)
}

// list shows what is below sub in the order of whole keys: List orders names, and a directory's keys go on with a slash.
func (d *dir) list(ctx context.Context, sub, prefix string, found func(Info) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := d.fs.List(d.path(sub))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", sub, err)
	}
	sortByKey(entries)
	for _, e := range entries {
		key := path.Join(sub, e.Name)
		if e.IsDir {
			if key += "/"; !strings.HasPrefix(key, prefix) && !strings.HasPrefix(prefix, key) {
				continue
			}
			if err := d.list(ctx, path.Join(sub, e.Name), prefix, found); err != nil {
				return err
			}
			continue
		}
		if !strings.HasPrefix(key, prefix) || strings.HasSuffix(key, tempSuffix) {
			continue
		}
		info, err := d.fs.Stat(d.path(key))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", sub, err)
		}
		if err := found(Info{Key: key, Size: info.Size, ModTime: info.ModTime}); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements Store.
func (d *dir) Delete(_ context.Context, key string) error {
	err := d.fs.Remove(d.path(key))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		err = nil
	}
	if err == nil {
		err = d.fs.SyncDir(filepath.Dir(d.path(key)))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// Close implements Store.
func (d *dir) Close() error { return nil }

// sortByKey orders entries as their keys are ordered, directories with the slash behind them.
func sortByKey(entries []vfs.Entry) {
	key := func(e vfs.Entry) string {
		if e.IsDir {
			return e.Name + "/"
		}
		return e.Name
	}
	slices.SortFunc(entries, func(a, b vfs.Entry) int { return strings.Compare(key(a), key(b)) })
}
