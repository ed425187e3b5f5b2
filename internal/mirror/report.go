package mirror

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// maxNamed bounds how many foreign keys a report names; all are counted.
const maxNamed = 20

// LaneReport is what a restore found of one tenant and index.
type LaneReport struct {
	Tenant, Index string
	Restored      int   // segments written, or in a dry run to be written
	Open          int   // of them beginnings of segments that were open
	Longer        int   // of them those of which the root had only a beginning
	Rows, Bytes   int64 // of them
	// MinTime and MaxTime are the event times of them in unix ns, as far as their headers tell; 0: none does.
	MinTime, MaxTime int64
	Present          int // segments that the root has already
	Poison           int // segments that the root has in poison/ only
	Unreadable       int // objects that no segment can be read from
	Failed           int // objects that the store did not give
	Newer            int // of the unreadable ones those in a format that only a newer version reads
}

// Finding is an object that could not be restored.
type Finding struct {
	Key    string `json:"key"`
	Reason string `json:"reason"`
	// Instead is the object of the same segment that the root has instead; empty: none reads well.
	Instead string `json:"instead,omitempty"`
}

// Copy is an object that was not used because of another one of its segment.
type Copy struct {
	Key  string `json:"key"`
	Size int64  `json:"bytes"`
	// Used is the other one; empty: it could not be fetched, and this one is of another lane.
	Used      string `json:"used"`
	OtherLane bool   `json:"other_lane"` // it is in another lane than the one that was used
}

// LaneGap is a run of numbers of one writer of which the mirror has no object though it has later ones: retention has deleted
// them after their commit, or the segments were void, or lost with the volume before their upload.
type LaneGap struct {
	Lane   string `json:"lane"`
	Writer string `json:"writer"`
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
}

// Report is what a restore found and did.
type Report struct {
	Lanes      []LaneReport // in order of tenant and index
	Unreadable []Finding
	Failed     []Finding
	Foreign    int      // objects that are no segments
	Named      []string // the keys of the first of them
	Superseded []Copy   // as a rule beginnings of open segments whose whole segment is there too
	Poison     []string // files below the root: segments that it has there only, which were not restored
	Gaps       []LaneGap
	Unlike     []Unlike // segments that were restored to a lane that holds other rows
}

// report collects a Report from many goroutines.
type report struct {
	mu    sync.Mutex
	rep   Report
	lanes map[string]*LaneReport
}

func newReport() *report { return &report{lanes: map[string]*LaneReport{}} }

func (r *report) laneLocked(o object) *LaneReport {
	l := r.lanes[o.lane()]
	if l == nil {
		l = &LaneReport{Tenant: o.tenant, Index: o.index}
		r.lanes[o.lane()] = l
	}
	return l
}

// gaps looks for numbers without an object, up to the greatest of each writer. A writer serves one lane.
func gaps(found []find) (out []LaneGap) {
	numbers := map[[6]byte][]uint64{}
	lanes := map[[6]byte]string{}
	for _, f := range found {
		numbers[f.id.Writer] = append(numbers[f.id.Writer], f.id.Seq)
		lanes[f.id.Writer] = f.lane()
	}
	for w, seqs := range numbers {
		slices.Sort(seqs)
		next := uint64(1)
		for _, seq := range seqs {
			if seq > next {
				out = append(out, LaneGap{Lane: lanes[w], Writer: segment.WriterName(w), First: next, Last: seq - 1})
			}
			next = seq + 1
		}
	}
	slices.SortFunc(out, func(a, b LaneGap) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Writer, b.Writer), cmp.Compare(a.First, b.First))
	})
	return out
}

func (r *report) foreign(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rep.Foreign++
	if len(r.rep.Named) < maxNamed {
		r.rep.Named = append(r.rep.Named, key)
	}
}

func (r *report) present(f find) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.laneLocked(f.object).Present++
}

func (r *report) restored(f find, rows int64, times [2]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.laneLocked(f.object)
	l.Restored++
	l.Rows += rows
	l.Bytes += f.size
	if f.active {
		l.Open++
	}
	if len(f.beside) > 0 {
		l.Longer++
	}
	if times == [2]int64{} {
		return
	}
	if l.MinTime == 0 && l.MaxTime == 0 {
		l.MinTime, l.MaxTime = times[0], times[1]
	}
	l.MinTime, l.MaxTime = min(l.MinTime, times[0]), max(l.MaxTime, times[1])
}

func (r *report) unlike(u Unlike) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rep.Unlike = append(r.rep.Unlike, u)
}

func (r *report) poisoned(f find, file string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.laneLocked(f.object).Poison++
	r.rep.Poison = append(r.rep.Poison, file)
}

// bad notes the objects that did not give their segment, and which one did.
func (r *report) bad(objects []trial, instead string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range objects {
		l := r.laneLocked(o.object)
		found := Finding{o.key, o.err.Error(), instead}
		if o.failed {
			l.Failed++
			r.rep.Failed = append(r.rep.Failed, found)
			continue
		}
		l.Unreadable++
		if errors.Is(o.err, frame.ErrVersion) {
			l.Newer++
		}
		r.rep.Unreadable = append(r.rep.Unreadable, found)
	}
}

// superseded notes the objects that were not used because of another one.
func (r *report) superseded(used find, objects []find) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range objects {
		r.rep.Superseded = append(r.rep.Superseded, Copy{Key: o.key, Size: o.size, Used: used.key, OtherLane: o.lane() != used.lane()})
	}
}

func (r *report) done() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := r.rep
	for _, key := range slices.Sorted(maps.Keys(r.lanes)) {
		rep.Lanes = append(rep.Lanes, *r.lanes[key])
	}
	for _, f := range [][]Finding{rep.Unreadable, rep.Failed} {
		slices.SortFunc(f, func(a, b Finding) int { return cmp.Compare(a.Key, b.Key) })
	}
	slices.SortFunc(rep.Superseded, func(a, b Copy) int { return cmp.Compare(a.Key, b.Key) })
	slices.Sort(rep.Poison)
	return rep
}

// cutMarker returns the directory of which key is the marker.
func cutMarker(key string) (dir string, ok bool) { return strings.CutSuffix(key, "/"+markerKey) }

// Marked tells whether a store is opened at the root of a mirror.
func Marked(ctx context.Context, s objstore.Store) bool {
	ctx, cancel := context.WithTimeout(ctx, defaultAttempt)
	defer cancel()
	_, err := readMarker(ctx, s)
	return err == nil
}
