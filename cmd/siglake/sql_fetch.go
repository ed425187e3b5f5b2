package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// scratch is a directory for temporary files that only this user may enter. It is made for the first of them.
type scratch struct {
	fs     vfs.FS
	dir    string // "" until there is a file
	remove func() error
	made   int
}

// create makes a file; its name ends in name.
func (s *scratch) create(name string) (path string, f vfs.File, err error) {
	if s.dir == "" {
		if s.dir, s.remove, err = vfs.PrivateDir("siglake-sql-"); err != nil {
			return "", nil, err
		}
	}
	s.made++
	path = filepath.Join(s.dir, fmt.Sprintf("%d-%s", s.made, name))
	f, err = s.fs.Create(path)
	return path, f, err
}

// close removes all files made.
func (s *scratch) close() error {
	if s.dir == "" {
		return nil
	}
	err := s.remove()
	s.dir = ""
	return err
}

// fetcher brings files of tables from an object store to this machine, each once: DuckDB here opens local files only.
type fetcher struct {
	scratch *scratch
	most    int64             // bytes; of all files fetched
	taken   int64             // bytes
	local   map[string]string // paths by URL
}

// isObject tells a URL of an object store from a path.
func isObject(path string) bool { return strings.Contains(path, "://") }

// opener opens files of tables.
type opener interface {
	OpenFile(path string) (lake.DataFile, error)
}

// fetch puts local copies in the place of objects. The bound is checked before the first byte is fetched.
func (f *fetcher) fetch(ctx context.Context, l opener, t *dataTable, bar *progress) error {
	var want int64
	files := 0
	for _, file := range t.plan.Files {
		if isObject(file.Path) && f.local[file.Path] == "" {
			want += file.Bytes
			files++
		}
	}
	if files == 0 && f.taken == 0 {
		return nil
	}
	if f.taken+want > f.most {
		return usageError("table %s.%s has %s in %s of an object store to fetch, and %s are fetched already: more than --max-fetch %s; "+
			"narrow the query with --since and --until, or give it more", t.space, t.name, humanBytes(want), plural(files, "file", "files"),
			humanBytes(f.taken), humanBytes(f.most))
	}
	bar.text, bar.total = "fetched %d of %d files, %s", files
	defer bar.clear()
	done := 0
	for i := range t.plan.Files {
		file := &t.plan.Files[i]
		if !isObject(file.Path) {
			continue
		}
		if f.local[file.Path] == "" {
			path, err := f.one(ctx, l, file.Path)
			if err != nil {
				return fmt.Errorf("fetch %s: %w", file.Path, err)
			}
			f.local[file.Path] = path
			f.taken += file.Bytes
			done++
			bar.draw(done, f.taken)
		}
		file.Path = f.local[file.Path]
	}
	return nil
}

// one fetches one object.
func (f *fetcher) one(ctx context.Context, l opener, url string) (_ string, err error) {
	in, err := l.OpenFile(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }() // opened for reading
	path, out, err := f.scratch.create("fetched.parquet")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.CopyBuffer(struct{ io.Writer }{fileWriter{out}}, &interruptible{ctx, io.NewSectionReader(in, 0, in.Size())}, make([]byte, 4<<20))
	return path, err
}

// interruptible is a reader that ends with ctx.
type interruptible struct {
	ctx context.Context //nolint:containedctx // io.Reader has no place for it
	r   io.Reader
}

func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// parseSize reads a number of bytes: 1024, 500MB, 4GiB.
func parseSize(flag, value string) (int64, error) {
	number := strings.TrimRight(value, "KMGTiB")
	unit := int64(1)
	switch strings.TrimPrefix(value, number) {
	case "", "B":
	case "KB":
		unit = 1e3
	case "MB":
		unit = 1e6
	case "GB":
		unit = 1e9
	case "TB":
		unit = 1e12
	case "KiB":
		unit = 1 << 10
	case "MiB":
		unit = 1 << 20
	case "GiB":
		unit = 1 << 30
	case "TiB":
		unit = 1 << 40
	default:
		unit = 0
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || unit == 0 || n < 0 || n > (1<<62)/unit {
		return 0, usageError("%s: %q is not a size such as 500MB or 4GiB", flag, value)
	}
	return n * unit, nil
}
