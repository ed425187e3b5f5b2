package segment

import (
	"errors"
	"fmt"
	"io/fs"
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
// when an earlier process made them and was killed before it had synced: three directories are synced, however many
// are made. Idempotent; safe for use at once.
//
// A crash leaves some of the names. Nothing is in them: whoever wants to write calls Prepare first. From the bottom up
// they are synced, so a lane whose name survives has its states.
//
//	errors  ErrCaseClash when another spelling of the tenant came first
func (l Lane) Prepare() error {
	if err := l.prepare(); err != nil {
		return fmt.Errorf("prepare lane %s: %w", l.Key(), err)
	}
	return nil
}

func (l Lane) prepare() error {
	fsys := l.root.fs
	if err := l.makeTenant(); err != nil {
		return err
	}
	if err := l.root.mkdir(l.dir); err != nil {
		return err
	}
	have, err := fsys.List(l.dir)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(have))
	for _, e := range have {
		there[e.Name] = e.IsDir
	}
	for _, st := range dirs() {
		if there[string(st)] {
			continue
		}
		if err := l.root.mkdir(l.Dir(st)); err != nil {
			return err
		}
	}
	// Also what was there: it may be the unsynced work of a killed process, or of another call under way.
	for dir := l.dir; ; dir = filepath.Dir(dir) {
		if err := fsys.SyncDir(dir); err != nil || dir == l.root.dir {
			return err
		}
	}
}

// makeTenant makes the tenant's directory. Only this is done under the root's lock, and no sync.
func (l Lane) makeTenant() error {
	l.root.mu.Lock()
	defer l.root.mu.Unlock()
	if err := l.checkCase(); err != nil {
		return err
	}
	return l.root.mkdir(filepath.Join(l.root.dir, l.tenant))
}

// mkdir makes a directory unless there is one, or a link to one.
func (r *Root) mkdir(dir string) error {
	_, err := r.fs.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = r.fs.Mkdir(dir); err == nil {
			return nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	_, err = r.fs.List(dir)
	return err
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
// In active/ only partial names are segments; in poison/ both forms, and notes and the originals of salvaged
// segments are left out; in stale/ so are the records of RequeueStale and of WriteHead; elsewhere only whole ones. Temporary files are left out; Resolve removes them.
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
		} else if !vfs.IsTemp(de.Name) && !isNote(st, de.Name) && !isKept(st, de.Name) && !isInto(st, de.Name) && !isFormer(st, de.Name) {
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

// isNote tells whether a file is the note of a quarantined segment, or of a kept original.
func isNote(st State, file string) bool {
	if st != Poison || !strings.HasSuffix(file, noteSuffix) {
		return false
	}
	_, ok := noteOf(file)
	return ok
}

// noteOf tells whose note a file in poison/ is.
func noteOf(file string) (Entry, bool) {
	about := strings.TrimSuffix(file, noteSuffix)
	if _, e, ok := originalOf(about); ok {
		return e, true
	}
	return parseEntry(Poison, about)
}
