package lake

import (
	"errors"
	"fmt"
	"io"
)

// DataFile is an open file of a table.
type DataFile interface {
	// ReaderAt fetches just what it is asked for, also from an object store. Safe for several goroutines at once.
	io.ReaderAt
	io.Closer
	// Size is in bytes.
	Size() int64
}

// OpenFile opens a file of a table by the Path of a Plan: a path of this machine or the URL of an object.
//
//	errors  fs.ErrNotExist when it is not there
func (l *Lake) OpenFile(path string) (DataFile, error) {
	f, err := l.io.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Join(err, f.Close()))
	}
	return sizedFile{f, f, info.Size()}, nil
}

type sizedFile struct {
	io.ReaderAt
	io.Closer
	size int64
}

func (f sizedFile) Size() int64 { return f.size }
