package segment

import (
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Lane is one (tenant, index): the directory that holds its state directories. A value, comparable, cheap to copy.
type Lane struct {
	root          *Root
	tenant, index string
	dir           string
	legacy        bool
}

// Tenant is the tenant's name.
func (l Lane) Tenant() string { return l.tenant }

// Index is the index's name, which is the table's name.
func (l Lane) Index() string { return l.index }

// Key is tenant/index. A legacy lane has the key of <tenant>/events.
func (l Lane) Key() string { return l.tenant + "/" + l.index }

// Legacy tells that the tenant's directory itself is the lane. It is read and drained, never written to.
func (l Lane) Legacy() bool { return l.legacy }

// Dir is the directory of a state.
func (l Lane) Dir(st State) string { return filepath.Join(l.dir, string(st)) }

// Path is where a name of a state is. Names in stale/ begin with the table's UUID and a slash.
func (l Lane) Path(st State, name string) string { return filepath.Join(l.dir, string(st), name) }

// Prepare makes all state directories. Durable when it returns, with every name above them up to the root, also
// when an earlier process made them and was killed before it had synced. Idempotent; safe for use at once.
//
//	errors  ErrCaseClash when another spelling of the tenant came first
func (l Lane) Prepare() error {
	l.root.mu.Lock()
	defer l.root.mu.Unlock()
	if err := l.checkCase(); err != nil {
		return err
	}
	fsys := l.root.fs
	if err := fsys.MkdirAll(l.dir); err != nil {
		return fmt.Errorf("prepare lane %s: %w", l.Key(), err)
	}
	// MkdirAll synced the directory that names the lane; the tenant's own name may still be that of a killed process.
	if err := fsys.SyncDir(l.root.dir); err != nil {
		return fmt.Errorf("prepare lane %s: %w", l.Key(), err)
	}
	have, err := fsys.List(l.dir)
	if err != nil {
		return fmt.Errorf("prepare lane %s: %w", l.Key(), err)
	}
	there := make(map[string]bool, len(have))
	for _, e := range have {
		there[e.Name] = e.IsDir
	}
	for _, st := range dirs() {
		if there[string(st)] {
			continue
		}
		if err := fsys.MkdirAll(l.Dir(st)); err != nil {
			return fmt.Errorf("prepare lane %s: %w", l.Key(), err)
		}
	}
	return fsys.SyncDir(l.dir) // the names that were there may be those of a killed process
}

// Entry is a segment's name in a state.
type Entry struct {
	Name    string // as Move takes it; in stale/ <uuid>/<file>
	ID      ID
	Partial bool // the name ends in .partial
}

// List returns the segments in a state, in name order, and what else is there. A directory that does not exist
// is empty. It is a snapshot: Moves go on meanwhile.
//
// In active/ only partial names are segments; in poison/ both forms, and notes are left out; elsewhere only
// whole ones. Temporary files are left out; Resolve removes them.
func (l Lane) List(st State) (entries []Entry, strangers []string, err error) {
	if st == Stale {
		return l.listStale()
	}
	return l.listDir(st, "")
}

func (l Lane) listDir(st State, sub string) (entries []Entry, strangers []string, err error) {
	des, err := list(l.root.fs, l.Path(st, sub))
	if err != nil {
		return nil, nil, fmt.Errorf("list %s of lane %s: %w", st, l.Key(), err)
	}
	for _, de := range des {
		name := path.Join(sub, de.Name)
		if e, ok := parseEntry(st, de.Name); ok && !de.IsDir {
			e.Name = name
			entries = append(entries, e)
		} else if !vfs.IsTemp(de.Name) && !isNote(st, de.Name) {
			strangers = append(strangers, name)
		}
	}
	return entries, strangers, nil
}

func (l Lane) listStale() (entries []Entry, strangers []string, err error) {
	des, err := list(l.root.fs, l.Dir(Stale))
	if err != nil {
		return nil, nil, fmt.Errorf("list %s of lane %s: %w", Stale, l.Key(), err)
	}
	for _, de := range des {
		if u, err := uuid.Parse(de.Name); err != nil || u.String() != de.Name || !de.IsDir {
			strangers = append(strangers, de.Name)
			continue
		}
		es, ss, err := l.listDir(Stale, de.Name)
		if err != nil {
			return nil, nil, err
		}
		entries, strangers = append(entries, es...), append(strangers, ss...)
	}
	return entries, strangers, nil
}

func parseEntry(st State, file string) (Entry, bool) {
	if st == Poison {
		file = withoutCopy(file)
	}
	id, partial, err := ParseName(file)
	ok := err == nil && (st == Poison || partial == (st == Active))
	return Entry{ID: id, Partial: partial}, ok
}

// Of several unlike copies of one id in poison/ all but the first have a number behind the name: X.arrow.2.
const maxCopies = 99

func copyName(file string, n int) string {
	if n == 1 {
		return file
	}
	return file + "." + strconv.Itoa(n)
}

func withoutCopy(file string) string {
	dot := strings.LastIndexByte(file, '.')
	if dot < 0 {
		return file
	}
	n, err := strconv.Atoi(file[dot+1:])
	if err != nil || n < 2 || n > maxCopies || copyName(file[:dot], n) != file {
		return file
	}
	return file[:dot]
}

const noteSuffix = ".json"

// isNote tells whether a file is the note of a quarantined segment.
func isNote(st State, file string) bool {
	if st != Poison || !strings.HasSuffix(file, noteSuffix) {
		return false
	}
	_, ok := parseEntry(Poison, strings.TrimSuffix(file, noteSuffix))
	return ok
}
