package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// legacyIndex is the index of a tenant directory that is itself a lane.
const legacyIndex = "events"

// Lanes finds all lanes, ordered by tenant, index, legacy last. A directory is a lane if its place and name are
// those of one and it holds a state directory: <tenant>/<index>/, or <tenant>/ itself, which is read as index
// events and never made by us. Both may exist for one key; both are returned.
//
// Everything else (lost+found, stray files, symbolic links) is ignored and returned as strangers, paths below
// the root in order, for the caller to name once. Empty directories are neither: a crash may leave them.
func (r *Root) Lanes() (lanes []Lane, strangers []string, err error) {
	entries, err := r.fs.List(r.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("find lanes: %w", err)
	}
	for _, e := range entries {
		switch {
		case rootFile(e.Name):
		case !e.IsDir || CheckTenant(e.Name) != nil:
			strangers = append(strangers, e.Name)
		default:
			ls, ss, err := r.tenantLanes(e.Name)
			if err != nil {
				return nil, nil, fmt.Errorf("find lanes of tenant %s: %w", e.Name, err)
			}
			lanes, strangers = append(lanes, ls...), append(strangers, ss...)
		}
	}
	return lanes, strangers, nil
}

func (r *Root) tenantLanes(tenant string) (lanes []Lane, strangers []string, err error) {
	dir := filepath.Join(r.dir, tenant)
	entries, err := list(r.fs, dir)
	if err != nil {
		return nil, nil, err
	}
	legacy := slices.ContainsFunc(entries, isStateDir)
	for _, e := range entries {
		if legacy && laneFile(e.Name) {
			continue
		}
		found, stranger, err := r.isLane(dir, e)
		if err != nil {
			return nil, nil, err
		}
		if found {
			lanes = append(lanes, Lane{root: r, tenant: tenant, index: e.Name, dir: filepath.Join(dir, e.Name)})
		}
		if stranger {
			strangers = append(strangers, filepath.Join(tenant, e.Name))
		}
	}
	if legacy {
		lanes = append(lanes, Lane{root: r, tenant: tenant, index: legacyIndex, dir: dir, legacy: true})
	}
	return lanes, strangers, nil
}

// isLane judges one entry of a tenant's directory.
func (r *Root) isLane(dir string, e vfs.Entry) (lane, stranger bool, err error) {
	if !e.IsDir || CheckIndex(e.Name) != nil {
		return false, true, nil //nolint:nilerr // a name that is no index is a stranger
	}
	inside, err := list(r.fs, filepath.Join(dir, e.Name))
	if err != nil {
		return false, false, err
	}
	lane = slices.ContainsFunc(inside, isStateDir)
	return lane, !lane && len(inside) > 0, nil
}

func isStateDir(e vfs.Entry) bool { return e.IsDir && slices.Contains(dirs(), State(e.Name)) }

// laneFile tells whether a name belongs in a lane's directory.
func laneFile(name string) bool {
	switch name {
	case ownerName, headName, ownerName + ".tmp", headName + ".tmp", consumersName, holdsName, drainWakeName:
		return true
	}
	return slices.Contains(dirs(), State(name))
}

// list returns the entries of a directory, none if it does not exist.
func list(fsys vfs.FS, dir string) ([]vfs.Entry, error) {
	entries, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}
