package lake

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"gocloud.dev/blob"
)

// objectFile reads an object. ReadAt asks for just the bytes it is given room for; Read goes through the object in one
// request from where Seek left it.
type objectFile struct {
	o        *objectIO
	location string
	key      string
	size     int64
	modTime  time.Time

	at     int64
	stream transfer
	r      *blob.Reader // reads on from at; nil until asked
}

func (f *objectFile) Stat() (fs.FileInfo, error) {
	return object{path.Base(f.key), f.size, f.modTime, false}, nil
}

// ReadAt may be called by several goroutines at once.
func (f *objectFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, explain("read", f.location, fs.ErrInvalid)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if off >= f.size {
		return 0, io.EOF
	}
	want := min(int64(len(p)), f.size-off)
	t := f.o.transfer()
	defer t.end(nil)
	var r *blob.Reader
	err := t.step(func() (err error) {
		r, err = f.o.bucket.NewRangeReader(t.ctx, f.key, off, want, nil)
		return err
	})
	if err != nil {
		return 0, explain("read", f.location, err)
	}
	defer func() { _ = r.Close() }() // only read from
	n := 0
	for err == nil && n < int(want) {
		var got int
		err = t.step(func() (err error) {
			got, err = io.ReadFull(r, p[n:min(n+stepBytes, int(want))])
			return err
		})
		n += got
	}
	if err != nil {
		return n, explain("read", f.location, err)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *objectFile) Read(p []byte) (n int, err error) {
	if f.at >= f.size {
		return 0, io.EOF
	}
	if f.r == nil {
		f.stream = f.o.transfer()
		err = f.stream.step(func() (err error) {
			f.r, err = f.o.bucket.NewRangeReader(f.stream.ctx, f.key, f.at, -1, nil)
			return err
		})
		if err != nil {
			f.stream.end(nil)
			return 0, explain("read", f.location, err)
		}
	}
	err = f.stream.step(func() (err error) {
		n, err = f.r.Read(p)
		return err
	})
	f.at += int64(n)
	if errors.Is(err, io.EOF) {
		if f.at < f.size {
			err = io.ErrUnexpectedEOF // never the end of a shorter file
		} else {
			return n, io.EOF
		}
	}
	return n, explain("read", f.location, err)
}

func (f *objectFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.size
	default:
		return 0, fmt.Errorf("seek in %s: whence %d", f.location, whence)
	}
	if offset < 0 {
		return 0, explain("seek", f.location, fs.ErrInvalid)
	}
	if offset != f.at {
		_ = f.Close() // only read from
	}
	f.at = offset
	return offset, nil
}

func (f *objectFile) Close() error {
	if f.r == nil {
		return nil
	}
	f.stream.end(nil)
	err := f.r.Close()
	f.r = nil
	return err
}
