package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// states are the directories of a lane that hold segments, in the order in which a segment passes them. Whoever
// looks for one that moves looks in this order, and so meets it unless it is gone.
func states() []segment.State {
	return []segment.State{
		segment.Active, segment.Sealed, segment.Processing, segment.Committed,
		segment.Orphans, segment.Poison, segment.Stale,
	}
}

// place is where a segment was seen.
type place struct {
	lane  segment.Lane
	state segment.State
	entry segment.Entry
}

func (p place) path() string { return p.lane.Path(p.state, p.entry.Name) }

// options say how a segment in this place is read.
func (p place) options() frame.DecodeOptions {
	return frame.DecodeOptions{Open: p.state == segment.Active}
}

// filter narrows a listing; its zero value lets everything pass.
type filter struct {
	lane  string
	state string
}

func (f filter) states() ([]segment.State, error) {
	if f.state == "" {
		return states(), nil
	}
	st := segment.State(f.state)
	if !slices.Contains(states(), st) {
		names := make([]string, 0, len(states()))
		for _, s := range states() {
			names = append(names, string(s))
		}
		return nil, usageError("--state: %q is not one of %s", f.state, strings.Join(names, ", "))
	}
	return []segment.State{st}, nil
}

// lanes returns the root's lanes that pass the filter.
func (f filter) lanes(root *segment.Root) (lanes []segment.Lane, strangers []string, err error) {
	all, strangers, err := root.Lanes()
	if err != nil {
		return nil, nil, err
	}
	if f.lane == "" {
		return all, strangers, nil
	}
	keys := make([]string, 0, len(all))
	for _, l := range all {
		if l.Key() == f.lane {
			lanes = append(lanes, l)
		}
		keys = append(keys, l.Key())
	}
	if len(lanes) == 0 {
		return nil, nil, usageError("--lane: no lane %q in %s; it has: %s", f.lane, root.Dir(), strings.Join(keys, ", "))
	}
	return lanes, strangers, nil
}

// places lists the segments that pass the filter. It is a snapshot of each directory at another moment: a
// segment that moves meanwhile may be seen twice or not at all.
func (f filter) places(ctx context.Context, root *segment.Root) ([]place, error) {
	sts, err := f.states()
	if err != nil {
		return nil, err
	}
	lanes, _, err := f.lanes(root)
	if err != nil {
		return nil, err
	}
	var out []place
	for _, lane := range lanes {
		for _, st := range sts {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			entries, _, err := lane.List(st)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				out = append(out, place{lane, st, e})
			}
		}
	}
	return out, nil
}

// errGone says that a segment is in no directory any more: it was committed and retired meanwhile.
var errGone = errors.New("segment is gone")

// openSegment opens a segment, and follows it when it has moved since it was listed.
func openSegment(fsys vfs.FS, p place) (vfs.File, place, error) {
	// A segment can move while its new place is looked up, but only onwards; twice through the states is more
	// than a drain can do to one segment that is not released meanwhile.
	for range 3 {
		f, err := fsys.Open(p.path())
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, p, err
		}
		next, err := findSegment(p.lane, p.entry.ID)
		if err != nil {
			return nil, p, err
		}
		p = next
	}
	return nil, p, fmt.Errorf("%w: %s", errGone, p.entry.ID)
}

// findSegment looks an id up in all states of a lane.
func findSegment(lane segment.Lane, id segment.ID) (place, error) {
	for _, st := range states() {
		entries, _, err := lane.List(st)
		if err != nil {
			return place{}, err
		}
		for _, e := range entries {
			if e.ID == id {
				return place{lane, st, e}, nil
			}
		}
	}
	return place{}, fmt.Errorf("%w: %s", errGone, id)
}

// resolveSegment turns an argument into a place: an id or file name, looked up in all lanes, or a path.
func resolveSegment(root *segment.Root, arg string) (place, error) {
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(arg), ".partial"), ".arrow")
	id, err := segment.ParseID(name)
	if err != nil {
		return place{}, usageError("%q is no segment id and no file", arg)
	}
	lanes, _, err := root.Lanes()
	if err != nil {
		return place{}, err
	}
	for _, lane := range lanes {
		p, err := findSegment(lane, id)
		if errors.Is(err, errGone) {
			continue
		}
		return p, err
	}
	return place{}, usageError("segment %s is not in %s", id, root.Dir())
}
