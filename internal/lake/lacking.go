package lake

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// lacking is a file that a snapshot names and that the listing of the table's location does not have.
type lacking struct {
	path     string // plain
	by       string // the manifest or metadata file that names it
	bytes    int64  // that it should have, -1: nobody says
	snapshot int64
}

// note remembers, of what a manifest names, a file that was not listed.
func (r *reach) note(df iceberg.DataFile, manifest string) error {
	at, err := plain(df.FilePath())
	if err != nil {
		return err
	}
	if _, ok := r.listed[at]; !ok {
		r.lacks[manifest] = append(r.lacks[manifest], lacking{path: at, by: manifest, bytes: df.FileSizeBytes()})
	}
	return nil
}

// lackingOf are the files that the snapshots of a state name and that were not listed. The state was read.
func (r *reach) lackingOf(meta table.Metadata) (out []lacking, err error) {
	for _, s := range meta.Snapshots() {
		for _, f := range r.lacks[s.ManifestList] {
			f.snapshot = s.SnapshotID
			out = append(out, f)
		}
	}
	add := func(snapshot int64, location string, bytes int64) error {
		at, err := plain(location)
		if err != nil {
			return err
		}
		if _, ok := r.listed[at]; !ok {
			out = append(out, lacking{at, "the metadata of the table", bytes, snapshot})
		}
		return nil
	}
	for f := range meta.Statistics() {
		if err := add(f.SnapshotID, f.StatisticsPath, f.FileSizeInBytes); err != nil {
			return nil, err
		}
	}
	for f := range meta.PartitionStatistics() {
		if err := add(f.SnapshotID, f.StatisticsPath, f.FileSizeInBytes); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// whole refuses a state that names a file that is not there: its name is wrong then, as one wrong bit in a manifest makes it, and
// the file that is meant is among those that nothing names; or it is gone, and whoever puts it back may need what is beside it.
//
// What was not in the listing is asked for one by one: what was committed since is there. What is not may have expired and have
// been removed by somebody else since the state was loaded, so what the table names now counts.
func (c *collection) whole(ctx context.Context, st state) error {
	named, err := c.reach.lackingOf(st.tbl.Metadata())
	if err != nil {
		return err
	}
	var gone []lacking
	absent := map[string]struct{}{}
	for _, f := range named {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, ok := c.reach.listed[f.path]; ok { // by now
			continue
		}
		if _, ok := absent[f.path]; ok {
			gone = append(gone, f)
			continue
		}
		switch is, err := c.lake.isThere(f.path); {
		case err != nil:
			return err
		case is:
			c.reach.listed[f.path] = struct{}{}
		default:
			absent[f.path] = struct{}{}
			gone = append(gone, f)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	now, err := c.load(ctx)
	if err != nil {
		return err
	}
	for _, f := range gone {
		if now.tbl.Metadata().SnapshotByID(f.snapshot) != nil {
			return fmt.Errorf("it names a file that is not there: %s, in %s; the name may be damaged, and the file that is meant be one that nothing names%s; "+
				"put the file back, or the right content of what names it, from a copy of the warehouse (docs/operations/disaster-recovery.md)",
				f.path, f.by, c.meant(f))
		}
	}
	return nil
}

// isThere asks the store for one file.
func (l *Lake) isThere(location string) (bool, error) {
	f, err := l.io.Open(location)
	if err == nil {
		_, err = f.Stat()
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if isAbsent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", location, err)
	}
	return true, nil
}

// meant names a file that was listed, that nothing names, and that is as long and called nearly the same.
func (c *collection) meant(f lacking) string {
	const few = 4 // characters
	at := slices.IndexFunc(c.found, func(o OrphanFile) bool {
		return o.Bytes == f.bytes && !c.reach.has(o.Path) && nearly(o.Path, f.path, few)
	})
	if at < 0 {
		return ""
	}
	return fmt.Sprintf(": perhaps %s, which is as long (a copy of it, called %s, makes the table whole)", c.found[at].Path, path.Base(f.path))
}

// nearly tells whether two texts of one length differ in so few bytes.
func nearly(a, b string, few int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] {
			few--
		}
	}
	return few >= 0
}
