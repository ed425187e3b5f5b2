package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

const (
	// leastRoom is what any commit needs: a data file, manifests, a metadata file, and the journal of the catalog.
	leastRoom = 1 << 20
	// mostRoom is what one commit needs of a log with a long backlog: a data file ends at 128 MiB.
	mostRoom = 128 << 20
)

// adviseRoom tells of a volume of the warehouse or the catalog that has no room for what waits in the log, before the first
// segment has waited for long. A store, or a directory that is not there yet, has no volume to ask.
func (a *app) adviseRoom(lanes []laneStatus) (out []advice) {
	var segments int
	var size int64
	for i := range lanes {
		if n := lanes[i].Sealed + lanes[i].Processing; n > 0 {
			segments, size = segments+n, size+lanes[i].PendingBytes
		}
	}
	opt, err := a.lakeOptions(true)
	if err != nil || segments == 0 {
		return nil // what is wrong with the catalog is told by who opens it
	}
	catalog, warehouse := opt.LocalPlaces()
	if catalog != "" {
		catalog = filepath.Dir(catalog)
	}
	told := vfs.Space{Free: -1}
	for _, p := range []struct{ of, dir string }{{"warehouse", warehouse}, {"catalog", catalog}} {
		if p.dir == "" {
			continue
		}
		space, err := a.fs.Space(p.dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			out = append(out, advice{What: fmt.Sprintf("how much room the volume of the %s has is not known: %v", p.of, err)})
		case space.Free < max(leastRoom, min(size, mostRoom)) && space != told: // the same volume, most likely
			told = space
			out = append(out, advice{
				What: fmt.Sprintf("the volume of the %s has %s left (%s), too little for what waits in the log, %s; nothing acknowledged is lost, and with room there the drain goes on by itself",
					p.of, humanBytes(space.Free), p.dir, plural(segments, "segment", "segments")),
				Command: a.next("gc-orphans"),
			})
		}
	}
	return out
}
