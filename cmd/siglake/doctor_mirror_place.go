package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
)

// overlap finds what the collector refuses: a mirror in the log or the warehouse, or around one of them. The zero verdict
// says that it is in neither.
func (d *doctor) overlap(at objstore.Location) verdict {
	at, err := at.Absolute()
	if err != nil {
		return ok(err, "")
	}
	catalog, err := d.catalogURI()
	if err != nil {
		return ok(err, "")
	}
	for _, o := range []struct{ what, place string }{{"the log", d.walDir()}, {"the warehouse", d.warehouseOf(catalog)}} {
		l, err := objstore.ParsePlace(o.place)
		if o.place == "" || err != nil {
			continue // the checks of it say so
		}
		if at.Overlaps(l) {
			return verdict{
				failed, fmt.Sprintf("%s and %s are inside one another; the collector refuses a mirror in %s, or around it", at, l, o.what),
				"give the mirror a directory of its own, as bucket_url/prefix of walmirror, best on another volume or in an object store",
			}
		}
	}
	return verdict{}
}

// apart tells whether a directory is on another volume than the log.
func (d *doctor) apart(dir string) verdict {
	at, _ := d.place()
	log, err := d.kernel.volume(at)
	copies, err2 := d.kernel.volume(dir)
	if err = errors.Join(err, err2); err != nil {
		return verdict{unknown, err.Error(), ""}
	}
	if log.Source == copies.Source && log.Type == copies.Type {
		return verdict{warned, fmt.Sprintf("%s and the log are both on %s", dir, log.Source), ""}
	}
	return verdict{passed, fmt.Sprintf("%s is on %s, the log on %s", dir, copies.Source, log.Source), ""}
}

// mirrorBelow finds a mirror one level below a store, where the prefix was forgotten; "" if none is seen. It looks into the
// directories among the first objects, for a bucket may have millions, and into the one of the default.
func mirrorBelow(ctx context.Context, store objstore.Store) string {
	dirs := []string{objstore.DefaultPrefix}
	enough := errors.New("enough")
	left := 10_000
	_ = store.List(ctx, "", func(o objstore.Info) error { // only a hint
		dir, _, below := strings.Cut(o.Key, "/")
		if below && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		if left--; left == 0 || len(dirs) > 100 {
			return enough
		}
		return nil
	})
	for _, dir := range dirs {
		if mirror.Marked(ctx, withinDir{store, dir}) {
			return dir
		}
	}
	return ""
}

// withinDir reads below a directory of a store.
type withinDir struct {
	objstore.Store

	dir string
}

func (s withinDir) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	return s.Store.Get(ctx, s.dir+"/"+key)
}
