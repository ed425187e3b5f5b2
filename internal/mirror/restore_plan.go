package mirror

import (
	"cmp"
	"slices"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// plan gathers the objects of each segment, in the order in which they are tried, and looks for gaps.
func (r *report) plan(found []find) []find {
	r.mu.Lock()
	defer r.mu.Unlock()
	lanes := lanesOf(found)
	byID := make(map[segment.ID][]find, len(found))
	for _, f := range found {
		byID[f.id] = append(byID[f.id], f)
	}
	out := make([]find, 0, len(byID))
	for _, objects := range byID {
		slices.SortFunc(objects, lanes.order)
		objects[0].others = objects[1:]
		out = append(out, objects[0])
	}
	slices.SortFunc(out, func(a, b find) int {
		return cmp.Or(cmp.Compare(a.lane(), b.lane()), cmp.Compare(a.id.String(), b.id.String()))
	})
	r.rep.Gaps = gaps(out)
	return out
}

// writerLanes are how many segments of a writer are in a lane.
type writerLanes map[[6]byte]map[string]int

func lanesOf(found []find) writerLanes {
	ids := map[string]map[segment.ID]bool{}
	for _, f := range found {
		if ids[f.lane()] == nil {
			ids[f.lane()] = map[segment.ID]bool{}
		}
		ids[f.lane()][f.id] = true
	}
	out := writerLanes{}
	for lane, in := range ids {
		for id := range in {
			if out[id.Writer] == nil {
				out[id.Writer] = map[string]int{}
			}
			out[id.Writer][lane]++
		}
	}
	return out
}

// order sorts the objects of one segment: whole ones before beginnings; then those of the lane that has the most segments of the
// writer, because a writer serves one lane and no segment says its own; then the longer one.
func (w writerLanes) order(a, b find) int {
	if a.active != b.active {
		if b.active {
			return -1
		}
		return 1
	}
	in := w[a.id.Writer]
	return cmp.Or(cmp.Compare(in[b.lane()], in[a.lane()]), cmp.Compare(b.size, a.size), cmp.Compare(a.key, b.key))
}
