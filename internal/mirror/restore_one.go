package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// timeColumn is the event time of a row in unix ns, in every segment of ours.
const timeColumn = "timestamp_ns"

// trial is an object that did not give its segment, and why.
type trial struct {
	find

	err    error
	failed bool // the store did not give it: the next run may have it
}

// one restores a segment from the first of its objects that reads well. Only what concerns the root is an error: the objects'
// own trouble goes into the report.
func (r *restore) one(ctx context.Context, f find) error {
	var bad []trial
	for i, c := range append([]find{f}, f.others...) {
		c.beside = f.beside
		if len(bad) > 0 && bad[len(bad)-1].failed && c.lane() != bad[len(bad)-1].lane() {
			r.report.superseded(find{}, []find{c}) // the next run would not put the better one in the place of this one
			continue
		}
		covered := false
		var err error
		if i > 0 {
			if covered, err = r.covered(c.beside, c); err != nil {
				return err
			}
		}
		if covered {
			r.report.present(c)
		} else {
			why, err := r.try(ctx, c)
			if err != nil {
				return err
			}
			if why != nil {
				bad = append(bad, *why)
				if errors.Is(why.err, errBeside) {
					break // of the others none is longer
				}
				continue
			}
		}
		r.report.bad(bad, c.key)
		r.report.superseded(c, f.others[i:])
		return nil
	}
	r.report.bad(bad, "")
	return nil
}

// try restores a segment from one object; why not, if that does not give it.
func (r *restore) try(ctx context.Context, f find) (why *trial, err error) {
	if f.size > maxObject {
		return &trial{find: f, err: fmt.Errorf("%w: %d bytes", frame.ErrTooBig, f.size)}, nil
	}
	weight := min(f.size, downloadBytes)
	if err := r.mem.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	defer r.mem.Release(weight)
	body, err := r.get(ctx, f)
	if err != nil {
		return &trial{find: f, err: err, failed: !errors.Is(err, objstore.ErrSpecial)}, ctx.Err()
	}
	seg, err := frame.Decode(bytes.NewReader(body), int64(len(body)), frame.DecodeOptions{})
	if err != nil {
		return &trial{find: f, err: err}, nil
	}
	if err := f.id.CheckName(seg.Schema); err != nil {
		seg.Release()
		return &trial{find: f, err: err}, nil
	}
	rows, times, kind := seg.Rows, timesOf(seg), segment.KindOf(seg.Schema)
	seg.Release()
	if len(f.beside) > 0 && r.opt.Online { // a drain may have the beginning in hand
		return &trial{find: f, err: errBeside, failed: true}, nil
	}
	switch err := r.goesOn(f.beside, body); {
	case errors.Is(err, errUnlike):
		return &trial{find: f, err: err}, nil
	case err != nil:
		return nil, fmt.Errorf("compare %s: %w", f.id, err)
	}
	if r.opt.Choice != nil && !r.opt.Choice.Wants(f.tenant, f.index, f.id, rows) {
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	if !r.opt.DryRun {
		if err := r.write(f, body); err != nil {
			return nil, fmt.Errorf("restore %s: %w", f.id, err)
		}
	}
	r.noteKind(f, kind)
	r.report.restored(f, rows, times)
	return nil, nil //nolint:nilnil // nothing is wrong
}

// timesOf are the event times of a segment in unix ns: of its header, or of its rows where that has none, as of a beginning.
func timesOf(seg *frame.Segment) (times [2]int64) {
	if seg.Header.MinTime != 0 || seg.Header.MaxTime != 0 {
		return [2]int64{seg.Header.MinTime, seg.Header.MaxTime}
	}
	first := true
	for _, b := range seg.Batches {
		for _, i := range b.Schema().FieldIndices(timeColumn) {
			column, ok := b.Column(i).(*array.Int64)
			if !ok || column.Len() == 0 {
				continue
			}
			values := column.Int64Values()
			if first {
				times, first = [2]int64{values[0], values[0]}, false
			}
			times = [2]int64{min(times[0], slices.Min(values)), max(times[1], slices.Max(values))}
		}
	}
	return times
}

// get reads an object whole: as many bytes as the listing said.
func (r *restore) get(ctx context.Context, f find) (body []byte, err error) {
	for tries := 1; ; tries++ {
		r.opt.Step("reading " + f.key)
		err = unlessSilent(ctx, timeFor(r.opt.AttemptTimeout, f.size), func(ctx context.Context, _ func()) (err error) {
			body, err = read(ctx, r.opt.Store, objstore.Info{Key: f.key, Size: f.size})
			return err
		})
		if err == nil || tries == getTries || errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrSpecial) {
			return body, err
		}
		if !rest(ctx, backoff(tries, retryFirst, retryLongest, rand.Int64N)) {
			return nil, ctx.Err()
		}
	}
}

// state is where restored segments go. A drain that runs believes what it sees come into sealed/ by the times and its proof, and
// these may be older than both; what is in orphans/ it looks up in the table.
func (r *restore) state() segment.State {
	if r.opt.Online {
		return segment.Orphans
	}
	return segment.Sealed
}

// write gives a body its name: temporary file, sync, link, sync of the directory. A crash in between leaves
// the temporary file, or both names. A beginning of it in sealed/ is replaced; the drain drops one that is further on, and
// writes only the rows behind it.
func (r *restore) write(f find, body []byte) error {
	lane, err := r.root.Lane(f.tenant, f.index)
	if err != nil {
		return err
	}
	if err := r.prepare(lane); err != nil {
		return err
	}
	name := lane.Path(r.state(), f.id.FileName())
	if slices.ContainsFunc(f.beside, func(c local) bool { return c.state == segment.Sealed }) {
		return vfs.WriteFile(r.root.FS(), name, body)
	}
	err = vfs.WriteNew(r.root.FS(), name, body)
	if errors.Is(err, fs.ErrExist) {
		return nil // an earlier run's, or a writer's that came meanwhile
	}
	return err
}

func (r *restore) prepare(lane segment.Lane) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prepared[lane.Key()] {
		return nil
	}
	if err := lane.Prepare(); err != nil {
		return err
	}
	r.prepared[lane.Key()] = true
	return nil
}
