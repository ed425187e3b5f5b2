package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// retainAtOnce is how many objects are read or deleted at a time, and retainBytes how many bytes of them are in memory.
const (
	retainAtOnce = 8
	retainBytes  = 64 << 20
)

// pass is one run of a retention.
type pass struct {
	r         *Retention
	root      *segment.Root
	committed func(context.Context, string, string, []segment.ID) (map[segment.ID]int64, error)
	now       time.Time

	known   sinces                // the record
	seen    sightings             // what of it is there still, and what is new
	held    map[segment.ID]bool   // segments with a name on the volume
	actives map[segment.ID][]find // _active/ objects by segment
	failed  map[string]bool       // lanes whose table could not be asked

	lane         string // of due and unknown
	due, unknown []find // a page at most
	asks, dues   int
	lastAsked    string
	bounded      bool // a bound of the run was reached

	counts  map[objectState]int
	deleted int
	bytes   int64
	errs    []error
}

// run goes over the whole mirror once.
func (p *pass) run(ctx context.Context) (err error) {
	if p.known, err = p.r.load(p.root); err != nil {
		p.r.met.failed(retainRecord, 1)
		return err
	}
	if by, yes := p.r.jumped(p.now); yes {
		p.r.opt.Logger.Warn("clock was set; this run of the mirror's retention is left out, and the times of its record go with the clock", zap.Duration("by", by))
		p.known.shift(by)
		return p.record(p.known)
	}
	if err := p.hold(); err != nil {
		p.r.met.failed(retainList, 1)
		return fmt.Errorf("list the write-ahead log: %w", err)
	}
	p.seen, p.failed, p.counts = sightings{}, map[string]bool{}, map[objectState]int{}
	if err := p.walk(ctx); err != nil {
		p.known.add(p.seen) // what was not looked at is known as before
		return errors.Join(err, p.record(p.known), errors.Join(p.errs...))
	}
	p.r.asked = p.lastAsked
	return errors.Join(p.record(p.seen.sinces()), errors.Join(p.errs...))
}

// hold lists what has a name in the log.
func (p *pass) hold() error {
	p.held = map[segment.ID]bool{}
	lanes, _, err := p.root.Lanes()
	for _, l := range lanes {
		err = errors.Join(err, eachName(l, func(_ segment.State, e segment.Entry) { p.held[e.ID] = true }, segment.MirrorPending))
	}
	return err
}

func (p *pass) record(s sinces) error {
	err := s.write(p.root)
	if err != nil {
		p.r.met.failed(retainRecord, 1)
	}
	return err
}

// walk looks at every object, sealed ones first: what is then left of _active/ has no whole segment beside it.
func (p *pass) walk(ctx context.Context) error {
	p.actives = map[segment.ID][]find{}
	err := p.list(ctx, activePrefix, func(f find) error {
		p.actives[f.id] = append(p.actives[f.id], f)
		return nil
	})
	if err != nil {
		return err
	}
	alone := maps.Clone(p.actives)
	err = p.list(ctx, "", func(f find) error {
		if f.active {
			return nil
		}
		delete(alone, f.id)
		return p.judge(ctx, f)
	})
	for _, fs := range alone {
		for _, f := range fs {
			if err == nil {
				err = p.judge(ctx, f)
			}
		}
	}
	if err == nil {
		err = p.flush(ctx)
	}
	return err
}

func (p *pass) list(ctx context.Context, prefix string, each func(find) error) error {
	listing := true
	err := p.r.opt.Store.List(ctx, prefix, func(info objstore.Info) error {
		o, ok := parseKey(info.Key)
		if !ok {
			return nil
		}
		err := each(find{object: o, key: info.Key, size: info.Size})
		listing = err == nil
		return err
	})
	if err != nil && listing {
		p.r.met.failed(retainList, 1)
	}
	return err
}

// judge finds out what an object is and puts it where its question is asked.
func (p *pass) judge(ctx context.Context, f find) error {
	if f.lane() != p.lane || len(p.due) == runPage || len(p.unknown) == runPage {
		if err := p.flush(ctx); err != nil {
			return err
		}
		p.lane = f.lane()
	}
	at, known := p.known.of(f.id)
	if at.After(p.now) {
		at = p.now // by a clock ahead of ours
	}
	switch {
	case p.held[f.id]:
		p.counts[stateOnVolume]++ // its time begins when the last name goes
	case !known:
		p.meet(f)
	case p.now.Sub(at) < p.r.opt.Keep:
		p.wait(f, at, stateWaiting)
	case p.dues >= p.r.most:
		p.bounded = true
		p.wait(f, at, stateOverdue)
	default:
		p.dues++
		p.due = append(p.due, f)
	}
	return nil
}

// meet takes in an object of which nothing is known. With too many of them a run goes on behind the one before.
func (p *pass) meet(f find) {
	switch {
	case !f.active && f.key <= p.r.asked:
		p.counts[stateUnproved]++
	case !f.active && p.asks >= p.r.most:
		p.bounded = true
		p.counts[stateUnproved]++
	default:
		p.asks++
		p.unknown = append(p.unknown, f)
		if p.asks == p.r.most {
			p.lastAsked = f.key
		}
	}
}

// wait keeps what is known of an object.
func (p *pass) wait(f find, at time.Time, st objectState) {
	p.seen.add(f.id, at)
	p.counts[st]++
}

// flush asks and deletes what judge has put together, all of one lane. Trouble with its table or with single objects
// ends nothing: they stay. A page of which the store does nothing ends the run.
func (p *pass) flush(ctx context.Context) error {
	due, unknown := p.due, p.unknown
	p.due, p.unknown = nil, nil
	if len(unknown) > 0 {
		p.ask(ctx, unknown)
	}
	if len(due) > 0 {
		return p.remove(ctx, due)
	}
	return ctx.Err()
}

// ask finds out which segments have rows in their table. From now on their age counts.
func (p *pass) ask(ctx context.Context, page []find) {
	rows, ok := p.rows(ctx, page)
	for _, f := range page {
		if ok && rows[f.id] > 0 {
			p.wait(f, p.now, stateWaiting)
			continue
		}
		p.counts[stateUnproved]++
	}
}

// rows asks the table of a page's lane. False: it cannot be asked; nothing of the lane is deleted in this run.
func (p *pass) rows(ctx context.Context, page []find) (map[segment.ID]int64, bool) {
	lane := page[0].lane()
	if p.failed[lane] {
		return nil, false
	}
	ids := make([]segment.ID, len(page))
	for i, f := range page {
		ids[i] = f.id
	}
	rows, err := p.committed(ctx, page[0].tenant, page[0].index, ids)
	if err != nil {
		p.failed[lane] = true
		p.r.met.failed(retainTable, 1)
		p.errs = append(p.errs, fmt.Errorf("lane %s: %w", lane, err))
		return nil, false
	}
	return rows, true
}

// remove deletes what of a page is proved. The objects are read first, so that the table is asked last.
func (p *pass) remove(ctx context.Context, page []find) error {
	if p.failed[page[0].lane()] {
		p.keep(page...)
		return nil
	}
	whole, errs := p.count(ctx, page)
	rows, ok := p.rows(ctx, page)
	if !ok {
		p.keep(page...)
		return nil
	}
	var proved, doubtful []find
	for i, f := range page {
		switch n, err := rows[f.id], errs[i]; {
		case errors.Is(err, objstore.ErrNotFound): // somebody else has deleted it
		case err != nil && !errors.Is(err, errUnreadable):
			p.keep(f)
		case err == nil && n > 0 && n >= whole[i]:
			proved = append(proved, f)
		default:
			doubtful = append(doubtful, f)
		}
	}
	p.doubt(doubtful, rows)
	failed := p.delete(ctx, proved)
	if err := ctx.Err(); err != nil {
		return err
	}
	if failed > 0 && failed == len(proved) {
		return fmt.Errorf("not one of %d objects could be deleted", failed)
	}
	return nil
}

// keep leaves objects to a later run.
func (p *pass) keep(fs ...find) {
	for _, f := range fs {
		at, _ := p.known.of(f.id)
		p.wait(f, at, stateOverdue)
	}
}

// doubt forgets what was known of objects whose rows are not all in the table: if they come, their time begins anew.
func (p *pass) doubt(fs []find, rows map[segment.ID]int64) {
	if len(fs) == 0 {
		return
	}
	for _, f := range fs {
		p.known.drop(f.id)
		p.counts[stateUnproved]++
	}
	p.r.opt.Logger.Warn("objects of the mirror are kept: the table does not show all rows of their segments",
		zap.Int("objects", len(fs)), zap.String("first", fs[0].key), zap.Int64("rows_in_table", rows[fs[0].id]))
}

// errUnreadable says that an object was read and is no segment that a table could prove.
var errUnreadable = errors.New("mirror: not readable as a segment")

// count reads objects whole and returns how many rows each has, or why not.
func (p *pass) count(ctx context.Context, page []find) (rows []int64, errs []error) {
	rows, errs = make([]int64, len(page)), make([]error, len(page))
	mem := semaphore.NewWeighted(retainBytes)
	var g errgroup.Group
	g.SetLimit(retainAtOnce)
	for i, f := range page {
		g.Go(func() error {
			weight := min(f.size, retainBytes)
			if errs[i] = mem.Acquire(ctx, weight); errs[i] != nil {
				return nil
			}
			defer mem.Release(weight)
			rows[i], errs[i] = p.countOne(ctx, f)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	p.tell(ctx, retainRead, "objects of the mirror not read, so they stay", page, errs)
	return rows, errs
}

// tell counts what went wrong and logs the first of it.
func (p *pass) tell(ctx context.Context, step retainStep, text string, page []find, errs []error) {
	failed := 0
	for _, err := range errs {
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			failed++
		}
	}
	if failed == 0 || ctx.Err() != nil {
		return
	}
	p.r.met.failed(step, failed)
	for i, err := range errs {
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			p.r.opt.Logger.Warn(text, zap.Int("objects", failed), zap.String("first", page[i].key), zap.Error(err))
			return
		}
	}
}

func (p *pass) countOne(ctx context.Context, f find) (int64, error) {
	if f.size > maxObject {
		return 0, fmt.Errorf("%w: %w: %d bytes", errUnreadable, frame.ErrTooBig, f.size)
	}
	ctx, cancel := context.WithTimeout(ctx, timeFor(defaultAttempt, f.size))
	defer cancel()
	body, err := read(ctx, p.r.opt.Store, objstore.Info{Key: f.key, Size: f.size})
	if err != nil {
		return 0, err
	}
	seg, err := frame.Decode(bytes.NewReader(body), int64(len(body)), frame.DecodeOptions{})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	defer seg.Release()
	if err := f.id.CheckName(seg.Schema); err != nil {
		return 0, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return seg.Rows, nil
}

// delete removes objects, of each segment the beginning of the open one first, and returns how many it could not.
func (p *pass) delete(ctx context.Context, page []find) (failed int) {
	errs := make([]error, len(page))
	var g errgroup.Group
	g.SetLimit(retainAtOnce)
	for i, f := range page {
		g.Go(func() error {
			errs[i] = p.deleteOne(ctx, f)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	for i, f := range page {
		if errs[i] != nil {
			failed++
			p.keep(f)
			continue
		}
		p.deleted++
		p.bytes += f.size
		p.r.met.removed(f.size)
	}
	p.tell(ctx, retainDelete, "objects of the mirror not deleted, will be tried again", page, errs)
	return failed
}

func (p *pass) deleteOne(ctx context.Context, f find) error {
	ctx, cancel := context.WithTimeout(ctx, defaultAttempt)
	defer cancel()
	for _, a := range p.actives[f.id] {
		if err := p.r.opt.Store.Delete(ctx, a.key); err != nil {
			return err
		}
	}
	if f.active {
		return nil // it was one of them
	}
	return p.r.opt.Store.Delete(ctx, f.key)
}
