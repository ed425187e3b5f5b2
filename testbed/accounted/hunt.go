package accounted

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

// A hunt kills one life of the collector at the moment that its target names. The kernel tells of names that appear and
// of bytes that are written; the kill follows within microseconds, and what the disk shows afterwards says what was hit.
type hunt struct {
	watch *waldir.Watch
	pid   int
	armed atomic.Bool
	shot  atomic.Pointer[string] // the event that made it shoot
	match func(waldir.Event) bool
}

// target is a moment to kill at.
type target struct {
	class string // what should be hit
	event func(waldir.Event) bool
	// unrested kills in the first moments of a life, right after another kill.
	unrested bool
}

func in(state string) func(waldir.Event) bool {
	return func(e waldir.Event) bool { return filepath.Base(e.Dir) == state && e.Created() }
}

func isPartial(e waldir.Event) bool {
	return filepath.Base(e.Dir) == "active" && e.Modified() && strings.HasSuffix(e.Name, ".partial")
}

func isDataFile(e waldir.Event) bool {
	return e.Created() && (strings.HasSuffix(e.Name, ".parquet") || strings.HasSuffix(e.Name, ".avro") || strings.HasSuffix(e.Name, ".metadata.json"))
}

func isCatalog(e waldir.Event) bool { return strings.HasPrefix(e.Name, "catalog.db") && e.Modified() }

// isHead matches the first file that the drain writes in a lane's own folder after a commit.
func isHead(e waldir.Event) bool {
	return strings.HasPrefix(e.Name, "head") && e.Created()
}

// The five moments of the promise, two of them in the life of a commit, and one more: during recovery.
const (
	inAppend       = "append: written, not acknowledged"
	inSeal         = "seal: between two names, or ended in active/"
	inClaim        = "claim: between two names"
	beforeCatalog  = "commit: files written, not in the catalog"
	afterCatalog   = "commit: in the catalog, not marked"
	inMark         = "mark: between two names"
	inRecovery     = "recovery: between two names"
	elsewhere      = "elsewhere"
	betweenCommits = "claimed, nothing written yet"
)

var targets = []target{
	{class: inAppend, event: isPartial},
	{class: inSeal, event: in("sealed")},
	{class: inClaim, event: in("processing")},
	{class: beforeCatalog, event: isDataFile},
	{class: afterCatalog, event: isHead},
	{class: inMark, event: in("committed")},
	{class: inRecovery, event: in("sealed"), unrested: true},
	{class: afterCatalog, event: isCatalog},
	{class: inRecovery, event: in("orphans"), unrested: true},
}

// required are the classes that a run must have hit.
var required = []string{inAppend, inSeal, inClaim, beforeCatalog, afterCatalog, inMark}

func newHunt(pid int, data string, t target) (*hunt, error) {
	h := &hunt{pid: pid, match: t.event}
	var err error
	if h.watch, err = waldir.NewWatch(h.see); err != nil {
		return nil, err
	}
	for _, pattern := range []string{"", "wal/*/*", "wal/*/*/*", "warehouse/*", "warehouse/*/*", "warehouse/*/*/*", "warehouse/*/*/*/*", "warehouse/*/*/*/*/*"} {
		if err := h.add(filepath.Join(data, pattern)); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// add watches the folders that a pattern matches; files and folders that are gone are passed over.
func (h *hunt) add(pattern string) error {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, dir := range found {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		if err := h.watch.Add(dir); err != nil {
			return err
		}
	}
	return nil
}

func (h *hunt) see(e waldir.Event) {
	if !h.armed.Load() || !h.match(e) || !h.armed.CompareAndSwap(true, false) {
		return
	}
	_ = unix.Kill(h.pid, unix.SIGKILL) // an error means that it is dead already
	what := fmt.Sprintf("%s in %s", e.Name, filepath.Base(e.Dir))
	h.shot.Store(&what)
}

func (h *hunt) arm() { h.armed.Store(true) }

// event is what made it shoot; "" when it never did.
func (h *hunt) event() string {
	if s := h.shot.Load(); s != nil {
		return *s
	}
	return ""
}

// body is what the disk of a dead collector shows.
type body struct {
	entries []waldir.Entry
	written []uint64 // record numbers found in the open segments
	parquet []string // data files in the warehouse
}

func autopsy(data, run string) (body, error) {
	var b body
	var err error
	if b.entries, err = waldir.List(filepath.Join(data, "wal")); err != nil {
		return b, err
	}
	for _, e := range waldir.In(b.entries, "active") {
		text, err := os.ReadFile(e.Path)
		if err != nil {
			return b, err
		}
		b.written = append(b.written, load.NumbersIn(run, text)...)
	}
	b.parquet, err = dataFiles(data)
	return b, err
}

// dataFiles lists the data files in the warehouse, of a living collector or of a dead one.
func dataFiles(data string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(filepath.Join(data, "warehouse"), func(path string, _ os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // a drain removes what it gave up
		}
		if err == nil && strings.HasSuffix(path, ".parquet") {
			out = append(out, path)
		}
		return err
	})
	return out, err
}

// claimed lists the segments that a drain had taken and not begun to mark.
func (b body) claimed() []waldir.Entry {
	var out []waldir.Entry
	moving := slices.Concat(waldir.Twice(b.entries, "sealed", "processing"), waldir.Twice(b.entries, "committed", "processing"))
	for _, e := range waldir.In(b.entries, "processing") {
		if !slices.ContainsFunc(moving, func(m waldir.Entry) bool { return m.Path == e.Path }) {
			out = append(out, e)
		}
	}
	return out
}

// classify says which moments a kill hit: one death may have hit several, as writer and drain work at once.
// acked says whether a record's request was acknowledged; committed whether rows of a segment are in the table; live are
// the data files of the table's snapshot, and known those that were on disk when this life began.
func (b body) classify(acked func(uint64) bool, committed func(id string) bool, live, known map[string]bool) []string {
	var out []string
	if slices.ContainsFunc(b.written, func(n uint64) bool { return !acked(n) }) {
		out = append(out, inAppend)
	}
	if b.sealing() {
		out = append(out, inSeal)
	}
	if b.recovering() {
		out = append(out, inRecovery)
	}
	if len(waldir.Twice(b.entries, "sealed", "processing")) > 0 {
		out = append(out, inClaim)
	}
	if len(waldir.Twice(b.entries, "processing", "committed")) > 0 {
		out = append(out, inMark)
	}
	if claimed := b.claimed(); len(claimed) > 0 {
		fresh := slices.ContainsFunc(b.parquet, func(p string) bool { return !live[p] && !known[p] })
		switch {
		case slices.ContainsFunc(claimed, func(e waldir.Entry) bool { return committed(e.ID()) }):
			out = append(out, afterCatalog)
		case fresh:
			out = append(out, beforeCatalog)
		default:
			out = append(out, betweenCommits)
		}
	}
	if len(out) == 0 {
		out = append(out, elsewhere)
	}
	return out
}

// sealing: an open segment whose stream is ended or whose header is final, or one that also stands in sealed/.
func (b body) sealing() bool {
	for _, e := range waldir.In(b.entries, "active") {
		f, err := waldir.ReadFrame(e.Path)
		if err == nil && f.Rest > 0 && (f.EOS || !f.Partial) {
			return true
		}
	}
	return false
}

// recovering: a segment that was open when its writer died is on its way to sealed/, or one that was claimed to orphans/.
func (b body) recovering() bool {
	for _, e := range waldir.Twice(b.entries, "active", "sealed") {
		if f, err := waldir.ReadFrame(e.Path); err == nil && f.Partial && !f.EOS {
			return true
		}
	}
	return len(waldir.Twice(b.entries, "processing", "orphans"))+len(waldir.Twice(b.entries, "orphans", "sealed"))+
		len(waldir.Twice(b.entries, "orphans", "committed")) > 0
}
