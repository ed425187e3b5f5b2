package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// holdsName is the file of a lane that says what its rows are, logs for example. The first writer makes it.
const holdsName = "holds"

// holdTries bounds the race with a drain that takes the draft for one a crash left.
const holdTries = 3

var holdsWord = regexp.MustCompile(`^[a-z]{1,32}$`)

// Hold makes the lane one of rows of a kind, unless it is one already, and returns what it holds. Of several calls at
// once, also of several processes, one decides and the others return what it said. The lane is prepared.
//
// Durable when it returns nil. Idempotent. A crash leaves the file whole or not at all, and perhaps a temporary one.
//
//	errors  a file that cannot be read or understood is an error, never "nothing"
func (l Lane) Hold(kind string) (string, error) {
	if !holdsWord.MatchString(kind) {
		return "", fmt.Errorf("hold %q in lane %s: want %s", kind, l.Key(), holdsWord)
	}
	have, err := l.Holds()
	for try := 0; err == nil && have == "" && try < holdTries; try++ {
		err = l.writeHolds(kind)
		if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			have, err = l.Holds()
		}
	}
	if err == nil && have == "" {
		err = fmt.Errorf("the file %s is removed as soon as it is made", holdsName)
	}
	if err == nil {
		// The file may be the work of a process that was killed before it had synced the name.
		err = l.root.fs.SyncDir(l.dir)
	}
	if err != nil {
		return "", fmt.Errorf("hold %s in lane %s: %w", kind, l.Key(), err)
	}
	return have, nil
}

// Holds is what Hold has said of the lane; empty if nothing.
func (l Lane) Holds() (string, error) {
	name := filepath.Join(l.dir, holdsName)
	b, err := vfs.ReadFile(l.root.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	word, whole := strings.CutSuffix(string(b), "\n")
	if !whole || !holdsWord.MatchString(word) {
		return "", fmt.Errorf("%s: %.40q says nothing about the rows of the lane", name, b)
	}
	return word, nil
}

// writeHolds publishes by a link, which another one's file refuses; where links are refused, by a rename.
func (l Lane) writeHolds(kind string) error {
	u, err := uuid.NewRandom()
	if err != nil {
		return err
	}
	fsys, name := l.root.fs, filepath.Join(l.dir, holdsName)
	draft := name + "." + u.String()
	if err := vfs.WriteFile(fsys, draft, []byte(kind+"\n")); err != nil {
		return err
	}
	err = fsys.Link(draft, name)
	if vfs.NoLinks(err) {
		err = fsys.Rename(draft, name)
	}
	if rerr := fsys.Remove(draft); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// isDraft tells a file that writeHolds has not published, or that a crash left.
func isDraft(name string) bool { return strings.HasPrefix(name, holdsName+".") }
