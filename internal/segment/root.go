package segment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Errors of Create and Open.
var (
	ErrNotRoot  = errors.New("segment: no WAL root (no " + markerName + ")")
	ErrNotEmpty = errors.New("segment: directory is not empty and no WAL root (no " + markerName + ")")
	ErrFormat   = errors.New("segment: WAL root of another format")
	// ErrDamagedRoot says that the file that makes a directory a root cannot be understood. Create sets it aside.
	ErrDamagedRoot = errors.New("segment: " + markerName + " is damaged")
)

// rootFormat is the only format of a root this code reads and writes.
const rootFormat = 1

// marker is the content of siglake-wal.json.
type marker struct {
	Format int       `json:"format"`
	UUID   uuid.UUID `json:"uuid"`
}

// Root is a WAL directory: the tenants, their lanes, and the files beside them. Safe for use by many goroutines.
type Root struct {
	fs   vfs.FS
	dir  string
	uuid uuid.UUID

	aside  string // where Create has put a damaged marker
	remade bool   // Create found lanes and no marker

	mu sync.Mutex // held while a tenant's directory is made, so that two spellings of one cannot both be
}

// Create makes dir a WAL root, or opens it if it is one. Durable when it returns. Idempotent. The caller holds
// the lock file of the directory, which it may have to make the directory for; two calls at once are not safe.
//
// A damaged marker stops nobody: all it says is that the directory is a root, and which. It is copied aside (see
// Aside), and the root gets another UUID. So does one whose marker was removed (see Remade).
//
//	errors  ErrNotEmpty if dir is no root and holds anything but our lock files and lost+found, ErrFormat
func Create(fsys vfs.FS, dir string) (*Root, error) {
	dir = filepath.Clean(dir)
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("create WAL root: %w", err)
	}
	r, err := Open(fsys, dir)
	if errors.Is(err, ErrNotRoot) {
		if err := Vacant(fsys, dir); err != nil {
			return nil, fmt.Errorf("create WAL root: %w", err)
		}
		remade := unmarked(fsys, dir)
		r, err := writeRoot(fsys, dir)
		if err == nil {
			r.remade = remade
		}
		return r, err
	}
	if errors.Is(err, ErrDamagedRoot) {
		return mendRoot(fsys, dir)
	}
	if err != nil {
		return nil, err
	}
	// The marker may be the work of a process that was killed before it had synced the name.
	return r, fsys.SyncDir(dir)
}

func writeRoot(fsys vfs.FS, dir string) (*Root, error) {
	u, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("create WAL root %s: %w", dir, err)
	}
	b, err := json.Marshal(marker{Format: rootFormat, UUID: u})
	if err != nil {
		return nil, fmt.Errorf("create WAL root %s: %w", dir, err)
	}
	if err := vfs.WriteFile(fsys, filepath.Join(dir, markerName), append(b, '\n')); err != nil {
		return nil, fmt.Errorf("create WAL root: %w", err)
	}
	return &Root{fs: thrifty(fsys, dir), dir: dir, uuid: u}, nil
}

// mendRoot keeps the bytes of a damaged marker under another name and writes a new one over it. A crash leaves the old
// marker or the new, and the copy.
func mendRoot(fsys vfs.FS, dir string) (*Root, error) {
	damaged, err := vfs.ReadFile(fsys, filepath.Join(dir, markerName))
	if err != nil {
		return nil, fmt.Errorf("mend WAL root: %w", err)
	}
	aside := filepath.Join(dir, markerName+damagedSuffix)
	for n := 2; ; n++ {
		there, err := vfs.ReadFile(fsys, aside)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("mend WAL root: %w", err)
		}
		if bytes.Equal(there, damaged) { // an earlier attempt's
			break
		}
		aside = filepath.Join(dir, fmt.Sprintf("%s%s.%d", markerName, damagedSuffix, n))
	}
	if err := vfs.WriteFile(fsys, aside, damaged); err != nil {
		return nil, fmt.Errorf("mend WAL root: %w", err)
	}
	r, err := writeRoot(fsys, dir)
	if err == nil {
		r.aside = aside
	}
	return r, err
}

// Aside is where Create has put what stood in a damaged marker; empty as a rule.
func (r *Root) Aside() string { return r.aside }

// Remade tells that Create has found lanes of ours and no marker.
func (r *Root) Remade() bool { return r.remade }

// unmarked tells whether dir is a root whose marker somebody has removed: it has the lock file and a lane, which no
// other directory has. One level too high or too low has not both.
func unmarked(fsys vfs.FS, dir string) bool {
	if _, err := fsys.Stat(filepath.Join(dir, LockName)); err != nil {
		return false
	}
	lanes, _, err := (&Root{fs: fsys, dir: dir}).Lanes()
	return err == nil && slices.ContainsFunc(lanes, func(l Lane) bool { return !l.legacy })
}

// Vacant returns nil if dir may become a root: it is missing, or holds nothing but what may be there before the
// marker is, which is locks, our temporary file, and the lost+found of a fresh volume; or it was one and only the
// marker is gone. Otherwise ErrNotEmpty.
func Vacant(fsys vfs.FS, dir string) error {
	entries, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !rootFile(e.Name) && e.Name != "lost+found" && !unmarked(fsys, dir) {
			return fmt.Errorf("%w: %s holds %q; give an empty directory or an existing WAL root", ErrNotEmpty, dir, e.Name)
		}
	}
	return nil
}

// Open opens an existing root and changes nothing.
//
//	errors  ErrNotRoot with the directory and, where one is near, the root that was probably meant; ErrFormat
func Open(fsys vfs.FS, dir string) (*Root, error) {
	dir = filepath.Clean(dir)
	m, err := readMarker(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open WAL root %s: %w: %s", dir, ErrNotRoot, hint(fsys, dir))
	}
	if err != nil {
		return nil, fmt.Errorf("open WAL root %s: %w", dir, err)
	}
	return &Root{fs: thrifty(fsys, dir), dir: dir, uuid: m.UUID}, nil
}

func readMarker(fsys vfs.FS, dir string) (marker, error) {
	b, err := vfs.ReadFile(fsys, filepath.Join(dir, markerName))
	if err != nil {
		return marker{}, err
	}
	var m marker
	if err := json.Unmarshal(b, &m); err != nil {
		return marker{}, fmt.Errorf("%w: %w", ErrDamagedRoot, err)
	}
	if m.Format != rootFormat {
		return marker{}, fmt.Errorf("%w: %d, this version knows %d", ErrFormat, m.Format, rootFormat)
	}
	if m.UUID == uuid.Nil {
		return marker{}, fmt.Errorf("%w: no uuid", ErrDamagedRoot)
	}
	return m, nil
}

// hint looks for the root that the caller may have meant: some levels up, or one down.
func hint(fsys vfs.FS, dir string) string {
	switch above, below, err := Nearby(fsys, dir); {
	case above != "":
		return "the root is " + above
	case below != "":
		return "there is one in " + below
	case errors.Is(err, fs.ErrNotExist):
		return "the directory does not exist; the collector's siglake exporter creates it at its start"
	}
	return "give the directory that the siglake exporter writes to (wal::directory); it creates it at its start"
}

// Nearby looks for a root near a directory that is none: anywhere above, or one level below; empty where there is none.
// err: what became of reading the directory.
func Nearby(fsys vfs.FS, dir string) (above, below string, err error) {
	for above = filepath.Dir(dir); ; above = filepath.Dir(above) {
		if _, err := readMarker(fsys, above); err == nil {
			return above, "", nil
		}
		if above == filepath.Dir(above) {
			break
		}
	}
	entries, err := fsys.List(dir)
	for _, e := range entries {
		if down := filepath.Join(dir, e.Name); e.IsDir {
			if _, err := readMarker(fsys, down); err == nil {
				return "", down, nil
			}
		}
	}
	return "", "", err
}

// Dir is the directory of the root.
func (r *Root) Dir() string { return r.dir }

// FS is the file system the root lives on. Names and records find room there also on a full volume: see KeepReserve.
func (r *Root) FS() vfs.FS { return r.fs }

// UUID is the identity of the root, made with it.
func (r *Root) UUID() uuid.UUID { return r.uuid }

// Lane returns the lane of a tenant and an index. It makes nothing; Lane.Prepare does.
//
//	errors  ErrBadName, ErrReservedName, ErrCaseClash (all satisfy errors.Is ErrBadName)
func (r *Root) Lane(tenant, index string) (Lane, error) {
	if err := CheckTenant(tenant); err != nil {
		return Lane{}, err
	}
	if err := CheckIndex(index); err != nil {
		return Lane{}, err
	}
	l := Lane{root: r, tenant: tenant, index: index, dir: filepath.Join(r.dir, tenant, index)}
	return l, l.checkCase()
}

// checkCase refuses a tenant that exists in another spelling: on a volume that folds letter case both would be
// one directory. An index has one spelling only.
func (l Lane) checkCase() error {
	r := l.root
	_, err := r.fs.Stat(filepath.Join(r.dir, l.tenant))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := r.fs.List(r.dir)
	if err != nil {
		return fmt.Errorf("check tenant %q: %w", l.tenant, err)
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name, l.tenant) && e.Name != l.tenant {
			return fmt.Errorf("tenant %q: %w: %q", l.tenant, ErrCaseClash, e.Name)
		}
	}
	return nil
}
