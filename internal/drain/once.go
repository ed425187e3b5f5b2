package drain

import (
	"context"
	"errors"
)

// Report is what one pass over a root did.
type Report struct {
	Lanes      int   // lanes looked at
	Segments   int64 // segments whose rows are all in their table and which were marked
	Rows       int64 // rows written
	Duplicates int64 // rows not written because the table had them
	Poisoned   int64 // damaged segments set aside
	Stale      int64 // segments of another incarnation of their table, set aside
	Requeued   int64 // orphans the table lacked rows of
	Retired    int64 // committed segments unlinked
	Gaps       int64 // runs of sequence numbers found missing for the first time

	Remaining   int // segments still in sealed/
	OrphansHeld int // orphans whose table could not be asked
	NewerFormat int // segments, of those remaining, that only a newer version reads

	Failures map[string]error // what went wrong, by lane; nil when nothing did
}

// Once drains everything that is sealed, without a gate, and returns. A lane that fails does not stop the
// others and is in Report.Failures; the error is for what stops all: *vfs.LockedError when another drain
// holds the root, segment.ErrNotRoot when the directory is none.
//
// ctx ends the claiming and then the commit in hand after Grace, as in Run. Idempotent.
func Once(ctx context.Context, opt Options) (Report, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return Report{}, err
	}
	tables, done := opt.catalog()
	report, err := once(ctx, opt, tables)
	return report, errors.Join(err, done())
}

func once(ctx context.Context, opt Options, tables Catalog) (Report, error) {
	d, err := newDrain(opt, tables)
	if err != nil {
		return Report{}, err
	}
	d.once = true
	root, lock, err := holdRoot(opt.FS, opt.WAL, opt.Holder)
	if err != nil {
		return Report{}, err
	}
	d.root, d.held, d.opt.FS = root, lock, lock
	err = d.sweep(ctx)
	return d.report(), errors.Join(err, lock.Close())
}

// sweep makes one pass in every lane and waits for it.
func (d *drain) sweep(ctx context.Context) error {
	work, done := graceful(ctx, d.opt.Grace)
	defer done()
	err := d.scan(ctx, work, anyLane)
	d.passes.Wait()
	d.publish(err)
	return err
}

func (d *drain) report() Report {
	m := d.m
	r := Report{
		Lanes:      len(d.lanes),
		Segments:   m.committed.sum.Load(),
		Rows:       m.rows.sum.Load(),
		Duplicates: m.duplicates.sum.Load(),
		Poisoned:   m.poisoned.sum.Load(),
		Stale:      m.stale.sum.Load(),
		Requeued:   m.orphansBack.sum.Load(),
		Retired:    m.retired.sum.Load(),
		Gaps:       m.gaps.sum.Load(),
	}
	for _, l := range d.lanes {
		v := l.view()
		r.Remaining += v.pending
		r.OrphansHeld += v.orphansHeld
		r.NewerFormat += v.newerHeld
		if v.err != nil {
			if r.Failures == nil {
				r.Failures = make(map[string]error)
			}
			r.Failures[l.dir.Key()] = v.err
		}
	}
	return r
}
