package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Scope tells Resolve which names are the caller's to decide.
type Scope uint8

const (
	// ByWriter says that the caller holds the lock of the writer, a drain may be running. Decides the fate of names in
	// active/, and of no other.
	ByWriter Scope = iota + 1
	// ByDrain says that the caller holds drain.lock and moves nothing meanwhile; a writer may be running. Decides the
	// fate of names beyond active/.
	ByDrain
)

// Resolved is what Resolve did, for the owner's log and counters.
type Resolved struct {
	Dropped  []Fate   // second names of which another keeps the bytes
	Poisoned []Fate   // copies of one id that contradict each other: an alarm
	Temps    []string // removed: unpublished files, notes whose segment never came; paths
}

// Fate is what became of one name.
type Fate struct {
	State  State // where it was
	Name   string
	Kept   State // dropped: the state that keeps the bytes; poisoned: poison
	Reason string
}

// resolveTries bounds how often names are listed anew because they moved between listing and looking.
const resolveTries = 8

// Resolve leaves one name per id among those of its scope, and no temporary file. Run it once at start.
//
//   - Two names of one file: the higher state wins (State.Outranks).
//   - Two files with the same body, or one body the beginning of the other: the longer one is kept, of equals the
//     one in the higher state. The header and the end-of-stream mark do not count as body. What of the longer
//     one is in the table already is for the drain to look up.
//   - Files that contradict each other go to poison/, each with a note, the second as X.arrow.2 and so on.
//   - ByDrain: a Salvage that a crash has cut is finished if the new segment is there, and undone otherwise.
//
// Durable when it returns nil: what is kept is synced, its name too, before any other is removed. Idempotent,
// also after a crash inside. Pins are left alone. ByWriter is safe beside a running drain and Moves to later
// states; ByDrain is safe beside a running writer, not beside a Move to an earlier state.
//
//	holds   ONE-1, LOUD-1
func (l Lane) Resolve(by Scope) (Resolved, error) { return l.resolve(by, nil) }

// ResolveOf is Resolve(ByWriter) for the segments that mine accepts, and what belongs to them; those of others are
// not touched. For a writer that shares its root: mine accepts the writers whose leases it holds.
func (l Lane) ResolveOf(mine func(ID) bool) (Resolved, error) { return l.resolve(ByWriter, mine) }

func (l Lane) resolve(by Scope, mine func(ID) bool) (Resolved, error) {
	r := resolver{mine: mine}
	var err error
	for range resolveTries {
		r.lane = l
		if err = r.run(by); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return r.done, fmt.Errorf("resolve lane %s: %w", l.Key(), err)
	}
	return r.done, nil
}

// held is one name found.
type held struct {
	state State
	Entry
}

// drop is a name to remove and the one that keeps its bytes.
type drop struct {
	lose, keep held
	reason     string
}

type resolver struct {
	lane  Lane
	mine  func(ID) bool // ByWriter: of these only; nil: of all
	drops []drop
	done  Resolved
}

func (r *resolver) run(by Scope) error {
	r.drops = nil
	if by == ByDrain {
		if err := r.endSalvages(); err != nil {
			return err
		}
	}
	groups, err := r.gather(by)
	if err != nil {
		return err
	}
	ids := slices.SortedFunc(maps.Keys(groups), func(a, b ID) int { return cmp.Compare(a.String(), b.String()) })
	var errs []error
	for _, id := range ids {
		group := groups[id]
		switch {
		case len(group) < 2:
		case by == ByWriter:
			errs = append(errs, r.judgeActive(group))
		default:
			errs = append(errs, r.judge(group))
		}
	}
	errs = append(errs, r.dropAll(), r.clean(by))
	return errors.Join(errs...)
}

// gather lists the names of the scope by id, from the highest state to the lowest, where several of one id matter.
// States are listed in the order in which segments pass through them, sealed/ once more at the end, so that a
// running drain does not carry a name past us.
func (r *resolver) gather(by Scope) (map[ID][]held, error) {
	states := slices.DeleteFunc(ranked(), func(st State) bool { return st == Active })
	groups := map[ID][]held{}
	if by == ByWriter {
		entries, _, err := r.lane.List(Active)
		if err != nil || len(entries) == 0 {
			return nil, err
		}
		for _, e := range entries {
			if r.mine == nil || r.mine(e.ID) {
				groups[e.ID] = []held{{Active, e}}
			}
		}
		if len(groups) == 0 {
			return nil, nil
		}
		states = append(states, Sealed)
	}
	for _, st := range states {
		entries, _, err := r.lane.List(st)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			h := held{st, e}
			g, known := groups[e.ID]
			if (known || by == ByDrain) && !slices.Contains(g, h) {
				groups[e.ID] = append(g, h)
			}
		}
	}
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b held) int {
			return slices.Index(ranked(), b.state) - slices.Index(ranked(), a.state)
		})
	}
	return groups, nil
}

// judge decides a group of names beyond active/. Copies in poison/ stay: they are there to be looked at.
func (r *resolver) judge(group []held) error {
	var kept []held
	for _, h := range group {
		keep := true
		for i := 0; i < len(kept) && keep; i++ {
			k := kept[i]
			if h.state == Poison && k.state == Poison {
				continue
			}
			rel, err := r.relate(k, h)
			if err != nil {
				return err
			}
			switch rel {
			case SameFile, SameBody, SecondShorter:
				r.drops = append(r.drops, drop{lose: h, keep: k, reason: rel.String()})
				keep = false
			case FirstShorter:
				r.drops = append(r.drops, drop{lose: k, keep: h, reason: rel.String()})
				kept = slices.Delete(kept, i, i+1)
				i--
			case Unlike:
			}
		}
		if keep {
			kept = append(kept, h)
		}
	}
	if len(kept) < 2 {
		return nil
	}
	for _, h := range kept {
		if h.state != Poison {
			if err := r.poison(h, "contradicts another copy of the same id"); err != nil {
				return err
			}
		}
	}
	return nil
}

// judgeActive decides the fate of a name in active/, the last of the group. The other names are the drain's.
func (r *resolver) judgeActive(group []held) error {
	last := len(group) - 1
	a := group[last]
	contradicts, sealed := false, false
	for _, o := range group[:last] {
		rel, err := r.relate(o, a)
		if err != nil {
			return err
		}
		switch rel {
		case SameFile, SameBody, SecondShorter:
			r.drops = append(r.drops, drop{lose: a, keep: o, reason: rel.String()})
			return nil
		case FirstShorter:
		case Unlike:
			contradicts = true
		}
		sealed = sealed || o.state == Sealed
	}
	switch {
	case contradicts:
		return r.poison(a, "contradicts another copy of the same id")
	case sealed: // its place is taken by a shorter copy, which a running drain may claim at any moment
		return r.poison(a, "longer than the sealed copy of the same id")
	}
	return nil // longer than what the drain has: it is sealed as any other and looked up
}

// poison sets one copy aside under a name that is free.
func (r *resolver) poison(h held, reason string) error {
	l := r.lane
	file := h.ID.FileName()
	if h.Partial {
		file = h.ID.PartialName()
	}
	src, err := l.root.fs.Stat(l.Path(h.state, h.Name))
	if err != nil {
		return err
	}
	for n := 1; n <= maxCopies; n++ {
		name := copyName(file, n)
		dst, err := l.root.fs.Stat(l.Path(Poison, name))
		if err == nil && dst.Inode != src.Inode {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		r.done.Poisoned = append(r.done.Poisoned, Fate{State: h.state, Name: h.Name, Kept: Poison, Reason: reason})
		return l.quarantineAs(h.state, h.Name, name, Note{Reason: reason + ", found in " + string(h.state), Time: time.Now().UTC()})
	}
	return fmt.Errorf("set %s aside: %d copies of it in %s already", h.Name, maxCopies, Poison)
}

// dropAll syncs every file and name that is kept, then removes the others, then syncs their directories.
func (r *resolver) dropAll() error {
	fsys := r.lane.root.fs
	batch := make([]rename, len(r.drops))
	all := make([]int, len(r.drops))
	for i, d := range r.drops {
		batch[i] = rename{src: r.lane.Path(d.lose.state, d.lose.Name), dst: r.lane.Path(d.keep.state, d.keep.Name)}
		all[i] = i
		if err := syncFile(fsys, batch[i].dst); err != nil {
			return err
		}
	}
	if err := syncDirs(fsys, batch, all, func(b rename) string { return b.dst }); err != nil {
		return err
	}
	for i, d := range r.drops {
		if err := fsys.Remove(batch[i].src); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		r.done.Dropped = append(r.done.Dropped, Fate{State: d.lose.state, Name: d.lose.Name, Kept: d.keep.state, Reason: d.reason})
	}
	return syncDirs(fsys, batch, all, func(b rename) string { return b.src })
}

// syncFile makes the bytes behind a name durable: what a killed process wrote is readable and no more.
func syncFile(fsys vfs.FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
