package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// told puts what DuckDB cannot know in the place of its error: which data file is gone, and why a table cannot be read, of which it
// sees no columns.
//
//	errors  fs.ErrNotExist for a file that is gone
func (d dataset) told(err error, fsys vfs.FS) error {
	binder := strings.HasPrefix(err.Error(), "Binder Error")
	var why []string
	for _, t := range d.tables {
		switch {
		case t.refused == "" && !t.described:
			for _, f := range t.plan.Files {
				if _, serr := fsys.Stat(f.Path); errors.Is(serr, fs.ErrNotExist) {
					return fmt.Errorf("table %s.%s: its data file %s is gone; restore it from a copy of the warehouse (docs/operations/disaster-recovery.md): %w",
						t.space, t.name, f.Path, fs.ErrNotExist)
				}
			}
		case binder && t.refused != "" && len(t.plan.Schema) == 0:
			why = append(why, t.refused)
		}
	}
	switch {
	case len(why) == 0:
		return err
	case strings.Contains(err.Error(), `"unreadable"`): // the column that stands for those that are not known
		return errors.New(strings.Join(why, "\n"))
	}
	return fmt.Errorf("%s\n%w", strings.Join(why, "\n"), err)
}
