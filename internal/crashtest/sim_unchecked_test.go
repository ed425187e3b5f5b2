package crashtest

import (
	"bytes"
	"path/filepath"
	"regexp"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// unchecked hides the checks of owner and head, so that whatever reads well counts.
type unchecked struct{ vfs.FS }

func uncheck(disk vfs.FS) vfs.FS { return unchecked{disk} }

var recordCheck = regexp.MustCompile(`( |,"check":")[0-9a-f]{8}"?`)

func (u unchecked) Open(name string) (vfs.File, error) {
	f, err := u.FS.Open(name)
	if base := filepath.Base(name); err != nil || base != "owner" && base != "head" {
		return f, err
	}
	b, err := vfs.ReadFile(u.FS, name)
	return uncheckedFile{f, recordCheck.ReplaceAll(b, nil)}, err
}

type uncheckedFile struct {
	vfs.File

	body []byte
}

func (f uncheckedFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(f.body).ReadAt(p, off)
}

func (f uncheckedFile) Stat() (vfs.Info, error) {
	info, err := f.File.Stat()
	info.Size = int64(len(f.body))
	return info, err
}
