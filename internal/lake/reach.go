package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// ErrOutside says that a table names a file outside of its location. Where else its files are, or whose those at its
// location are, nobody can tell then.
var ErrOutside = errors.New("lake: a table names a file outside of its location")

// reach is what states of a table lead to: everything that must not be removed. States are added to it; what two of them
// name is read once.
type reach struct {
	io       *stores
	location string              // of the table, plain
	files    map[string]struct{} // plain paths
	read     map[string]struct{} // manifest lists and manifests whose names are in files
	progress func(read int)

	listed map[string]struct{}  // plain paths that there were before anything was read, and those asked for since
	lacks  map[string][]lacking // by manifest list or manifest: what it leads to and was not listed
}

func newReach(io *stores, location string, listed map[string]struct{}, progress func(int)) (*reach, error) {
	at, err := plain(location)
	if err != nil {
		return nil, err
	}
	return &reach{
		io: io, location: at, files: map[string]struct{}{}, read: map[string]struct{}{}, progress: progress,
		listed: listed, lacks: map[string][]lacking{},
	}, nil
}

// plain is the one spelling of a location that a listing has too.
func plain(location string) (string, error) {
	if isObject(location) {
		return strings.TrimSuffix(location, "/"), nil
	}
	path, err := localPath(location)
	if err != nil {
		return "", err
	}
	return filepath.Clean(path), nil
}

// within tells whether a plain path is a place or below it.
func within(path, place string) bool {
	return path == place || strings.HasPrefix(path, strings.TrimSuffix(place, "/")+"/")
}

func (r *reach) has(path string) bool {
	_, ok := r.files[path]
	return ok
}

// name notes a file that is named.
func (r *reach) name(location, by string) error {
	path, err := plain(location)
	if err != nil || !within(path, r.location) || path == r.location {
		return fmt.Errorf("%w %s: %s, in %s", ErrOutside, r.location, location, by)
	}
	r.files[path] = struct{}{}
	return nil
}

// metadata notes what a metadata file and its snapshots name, and those it follows. What a snapshot names that is not there
// is returned: the snapshot may have expired since the state was loaded.
func (r *reach) metadata(ctx context.Context, location string, meta table.Metadata) (missing []missing, err error) {
	if err := r.name(location, "the catalog"); err != nil {
		return nil, err
	}
	for e := range meta.PreviousFiles() {
		if err := r.name(e.MetadataFile, location); err != nil {
			return nil, err
		}
	}
	for f := range meta.Statistics() {
		if err := r.name(f.StatisticsPath, location); err != nil {
			return nil, err
		}
	}
	for f := range meta.PartitionStatistics() {
		if err := r.name(f.StatisticsPath, location); err != nil {
			return nil, err
		}
	}
	return r.snapshots(ctx, meta.Snapshots(), location)
}

// missing is a snapshot of which something is not there.
type missing struct {
	snapshot int64
	err      error
}

func (r *reach) snapshots(ctx context.Context, all []table.Snapshot, by string) (out []missing, err error) {
	for _, s := range all {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if s.ManifestList == "" {
			return nil, fmt.Errorf("snapshot %d in %s has no manifest list: format version 1 is not collected", s.SnapshotID, by)
		}
		if err := r.name(s.ManifestList, by); err != nil {
			return nil, err
		}
		switch err := r.snapshot(ctx, s); {
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, missing{s.SnapshotID, err})
		case err != nil:
			return nil, err
		}
	}
	return out, nil
}

func (r *reach) snapshot(ctx context.Context, s table.Snapshot) error {
	if !r.first(s.ManifestList) {
		return nil
	}
	manifests, err := r.io.manifestsOf(&s)
	if err != nil {
		r.again(s.ManifestList)
		return err
	}
	for _, m := range manifests {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.manifest(m, s.ManifestList); err != nil {
			r.again(s.ManifestList)
			return err
		}
		r.lacks[s.ManifestList] = append(r.lacks[s.ManifestList], r.lacks[m.FilePath()]...)
	}
	return nil
}

func (r *reach) manifest(m iceberg.ManifestFile, by string) error {
	if err := r.name(m.FilePath(), by); err != nil {
		return err
	}
	if !r.first(m.FilePath()) {
		return nil
	}
	for e, err := range m.Entries(r.io, true) {
		if err != nil {
			err = r.io.fileError("manifest", m.FilePath(), err)
		} else if err = r.name(e.DataFile().FilePath(), m.FilePath()); err == nil {
			err = r.note(e.DataFile(), m.FilePath())
		}
		if err != nil {
			r.again(m.FilePath())
			return err
		}
	}
	return nil
}

// first tells whether a file is to be read, and notes that it is.
func (r *reach) first(location string) bool {
	if _, ok := r.read[location]; ok {
		return false
	}
	r.read[location] = struct{}{}
	r.progress(len(r.read))
	return true
}

// again takes that back.
func (r *reach) again(location string) {
	delete(r.read, location)
	delete(r.lacks, location)
}
