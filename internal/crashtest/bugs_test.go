package crashtest

import (
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// bug is a mistake that a wrapped file system makes for the product.
type bug struct {
	life, recovery func(vfs.FS) vfs.FS
}

var bugs = map[string]bug{
	"": {life: plain, recovery: plain},
}

func plain(fsys vfs.FS) vfs.FS { return fsys }
