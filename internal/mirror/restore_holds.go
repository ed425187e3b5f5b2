package mirror

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// Unlike are restored segments whose rows are of another kind than their lane holds: no drain commits them there.
type Unlike struct {
	Lane     string `json:"lane"`
	Holds    string `json:"holds"` // logs, traces or metrics, as the index or the file holds of the lane says
	Rows     string `json:"rows"`  // what theirs are
	Segments int    `json:"segments"`
	Key      string `json:"key"` // of one of them
}

// ofKind are the restored segments of one lane and one kind.
type ofKind struct {
	segments int
	key      string
}

// noteKind remembers what the rows of a restored segment are.
func (r *restore) noteKind(f find, kind string) {
	if kind == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds[f.lane()] == nil {
		r.kinds[f.lane()] = map[string]ofKind{}
	}
	k := r.kinds[f.lane()][kind]
	r.kinds[f.lane()][kind] = ofKind{k.segments + 1, cmp.Or(k.key, f.key)}
}

// holdLanes records of each user index what it holds, where that is not known: else the first request would decide it. Durable when it
// returns; idempotent: of an interrupted run's segments, too, which the root has by now.
func (r *restore) holdLanes() error {
	for _, l := range r.report.done().Lanes {
		kinds := r.kinds[l.Tenant+"/"+l.Index]
		most := ""
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			if most == "" || kinds[kind].segments > kinds[most].segments {
				most = kind
			}
		}
		have, err := r.hold(l.Tenant, l.Index, most)
		if err != nil {
			return err
		}
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			if kind != have {
				r.report.unlike(Unlike{Lane: l.Tenant + "/" + l.Index, Holds: have, Rows: kind, Segments: kinds[kind].segments, Key: kinds[kind].key})
			}
		}
	}
	return nil
}

// hold returns what a lane holds. What is recorded stays; else it is what most of the segments are that were restored now, or, where none
// was, what those say that are there.
func (r *restore) hold(tenant, index, most string) (string, error) {
	if kind := segment.KindOfIndex(index); kind != "" {
		return kind, nil
	}
	if r.root == nil { // a dry run of a root that is not there
		return most, nil
	}
	lane, err := r.root.Lane(tenant, index)
	if err != nil {
		return "", err
	}
	have, err := lane.Holds()
	switch {
	case err != nil && !errors.Is(err, segment.ErrRecord):
		return "", err
	case r.opt.DryRun:
		return cmp.Or(have, most), nil
	case err == nil && have+most != "":
		return lane.Decide(cmp.Or(have, most)) // where it is there, its name may not be synced
	}
	held, err := lane.Hold(most)
	return held.Kind, err
}
