package drain

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// recorder writes down what changes the disk, and the commits between.
type recorder struct {
	mu   sync.Mutex
	name string // of the segment, shown as X
	log  []string
}

func (r *recorder) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, s)
}

func (r *recorder) hook(op simfs.Op) error {
	if !op.Kind.Changes() {
		return nil
	}
	short := func(name string) string {
		return strings.ReplaceAll(path.Join(path.Base(path.Dir(name)), path.Base(name)), r.name, "X")
	}
	s := string(op.Kind) + " " + short(op.Name)
	if op.To != "" {
		s += " " + short(op.To)
	}
	r.add(s)
	return nil
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log
	r.log = nil
	return log
}

// The order of the operations, as docs/lifecycle.md has it: each line is durable before the next begins.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	now := time.Now()
	w.opt.Now = func() time.Time { return now }
	w.opt.Retain = time.Minute
	r := &recorder{name: w.seal(spec{state: segment.Processing})}
	table := w.tables.get("events")
	table.before = func(context.Context, []lake.Segment) error {
		r.add("COMMIT")
		return nil
	}
	_, l := w.laneOf("events")
	w.fs.(*simfs.FS).SetHook(r.hook)
	w.pass(l)

	move := func(from, to string) []string {
		return []string{"link " + from + "/X " + to + "/X", "syncdir events/" + to, "remove " + from + "/X", "syncdir events/" + from}
	}
	write := func(name string) []string {
		tmp := "events/" + name + ".tmp"
		return []string{"create " + tmp, "writev " + tmp, "sync " + tmp, "rename " + tmp + " events/" + name, "syncdir default/events"}
	}
	var want []string
	want = append(want, move("processing", "orphans")...) // start
	want = append(want, write("numbers.json")...)         // before head and owner, which make the lane a drained one
	want = append(want, write("head")...)                 // bind: owner last
	want = append(want, write("owner")...)
	want = append(want, move("orphans", "sealed")...)    // the table lacks its rows
	want = append(want, move("sealed", "processing")...) // claim
	want = append(want, "COMMIT")
	want = append(want, write("head")...)
	want = append(want, "touch processing/X") // mark
	want = append(want, move("processing", "committed")...)
	got := r.take()
	require.Equal(t, want, got[slices.Index(got, want[0]):]) // behind what Prepare and Resolve do

	now = now.Add(time.Minute)
	w.pass(l)
	want = append(write("numbers.json"), "remove committed/X", "syncdir events/committed")
	require.Equal(t, want, r.take(), "retire: recorded before it is gone")
	w.accounted()
}
