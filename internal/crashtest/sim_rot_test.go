package crashtest

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// rot is damage at rest: a bit or a block of what nobody writes any more.
type rot struct {
	where string
	at    int // operation before which it comes, or the first one after it that finds something
	block bool
	pick  uint64
}

// What rots.
const (
	rotSegment = "segment"                 // behind its seal, in any state; its pin is the same file
	rotObject  = "object"                  // of the mirror
	rotNote    = "note"                    // in poison/
	rotRecord  = "record"                  // what is beside the segments: head, owner and their like
	rotActive  = "copy of an open segment" // in the mirror
)

var rotPlaces = []string{rotSegment, rotSegment, rotObject, rotObject, rotNote, rotRecord, rotRecord, rotRecord, rotActive}

// records are the small files of the log.
var records = []string{"owner", "head", "numbers.json", segment.RetentionName}

// rotEvery is how many operations come between two looks for something to rot.
const rotEvery = 10

// decay lets what is due rot. The caller holds the steps.
func (w *sim) decay(k int) {
	if len(w.rots) == 0 || k%rotEvery != 0 {
		return
	}
	w.mu.Lock()
	calm := w.calm
	w.mu.Unlock()
	if calm {
		return
	}
	w.rots = slices.DeleteFunc(w.rots, func(r rot) bool { return k >= r.at && w.rot(k, r) })
}

// rot is false when there is nothing yet to rot.
func (w *sim) rot(k int, r rot) bool {
	from := w.rottable(r.where)
	if len(from) == 0 {
		return false
	}
	slices.SortFunc(from, func(a, b string) int { return cmp.Compare(w.stable(a), w.stable(b)) })
	name := from[r.pick%uint64(len(from))]
	if r.where == rotObject || r.where == rotActive {
		body := slices.Clone(w.store.Objects()[name])
		r.change(body)
		w.store.Set(name, body)
	} else if err := w.disk.Decay(name, r.change); err != nil {
		return false // it is not at rest
	}
	w.say("%d ===== %s %s rots", k, r.where, w.stable(name))
	if r.where != rotNote && r.where != rotRecord {
		w.mu.Lock()
		w.rotten[idIn(name)] = true
		w.mu.Unlock()
	}
	return true
}

// change flips a bit, or 512 bytes.
func (r rot) change(b []byte) {
	off := int(r.pick >> 8 % uint64(len(b)))
	if !r.block {
		b[off] ^= 1 << (r.pick % 8)
		return
	}
	for i := off &^ 511; i < min(len(b), off&^511+512); i++ {
		b[i] ^= 0xff
	}
}

// rottable are the files or objects of a place.
func (w *sim) rottable(where string) (out []string) {
	switch where {
	case rotObject, rotActive:
		for key := range w.store.Objects() {
			if key != marker && strings.HasPrefix(key, "_active/") == (where == rotActive) {
				out = append(out, key)
			}
		}
		return out
	case rotRecord:
		m := &machine{disk: w.disk}
		return m.files(func(base string) bool { return slices.Contains(records, base) })
	}
	suffix := map[string]string{rotSegment: ".arrow", rotNote: ".json"}[where]
	m := &machine{disk: w.disk}
	return slices.DeleteFunc(m.files(func(base string) bool { return strings.HasSuffix(base, suffix) }), func(name string) bool {
		switch st := stateOf(name); where {
		case rotNote:
			return st != segment.Poison
		default:
			return !slices.Contains([]segment.State{segment.Sealed, segment.Processing, segment.Orphans, segment.Committed}, st)
		}
	})
}

// idIn is the id of the segment that a path is about.
func idIn(name string) string {
	id, _, _ := strings.Cut(path.Base(name), ".arrow")
	return id
}

// reported notes what a recovery from the mirror says it could not read.
func (w *sim) reported(rep mirror.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range rep.Unreadable {
		w.told[idIn(f.Key)] = true
	}
}

// setAside notes what is in poison/ by name.
func (w *sim) setAside() {
	m := &machine{disk: w.disk}
	for _, name := range m.files(func(string) bool { return true }) {
		if stateOf(name) == segment.Poison {
			w.told[idIn(filepath.Base(name))] = true
		}
	}
}

// keptRotten tells whether a file is a committed segment that has rotted: nobody can hold it against the table any more, so it
// stays, and so does its pin where the mirror has the sound bytes.
func (w *sim) keptRotten(name string) bool {
	st := stateOf(name)
	return (st == segment.Committed || st == segment.MirrorPending) && w.rotten[idIn(name)]
}
