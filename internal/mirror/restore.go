package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

const (
	defaultDownloads = 8
	// downloadBytes bounds the bodies in memory at a time; one that is larger is alone.
	downloadBytes = 256 << 20
	// maxObject is the largest segment that is read: what frame reads at most, and a header.
	maxObject = 1<<30 + frame.HeaderSize
	// lockEvery is how often a lock is asked for that somebody has.
	lockEvery = 50 * time.Millisecond
	// getTries is how often an object is asked for before it counts as failed.
	getTries = 5
)

// RestoreOptions say from where to where.
type RestoreOptions struct {
	FS    vfs.FS // nil: the real one
	Dir   string // the WAL root; made unless it is there
	Store objstore.Store

	DryRun bool // read and decode everything, write nothing
	// Online goes on beside a writer or a drain that has the root, and writes to orphans/ instead of sealed/; otherwise
	// their locks are taken for the time. A directory that is no root yet is made one under the writer's lock. Restores beside
	// a drain wait for one another.
	Online bool
	// Choice, unless it is nil, says which of the segments that the root lacks are restored, or in a dry run read.
	Choice Choice
	// Concurrency is how many objects are read at a time (8).
	Concurrency int
	Holder      string // who we are, for whoever is refused meanwhile
	// AttemptTimeout is how long the store may be silent in one attempt (30 s); for an object a second more for each MiB.
	AttemptTimeout time.Duration
	// Step is told what is asked of the store, at the begin of each attempt and with each part of a listing; from several
	// goroutines at a time.
	Step func(step string)
	// Progress is called after each object, from one goroutine at a time.
	Progress func(done, of int, size int64)
}

// Choice says which segments are wanted.
type Choice interface {
	// Listed is told what the mirror has of a lane and the root lacks. False: nothing of it is wanted. An error ends the restore.
	Listed(ctx context.Context, tenant, index string, ids []segment.ID) (bool, error)
	// Wants is told of each of them that was read well, from several goroutines at a time.
	Wants(tenant, index string, id segment.ID, rows int64) bool
}

// ErrNoMirror says that a URL is not the root of a mirror.
var ErrNoMirror = errors.New("mirror: no mirror here (no " + markerKey + ")")

// ErrPlace says that Dir is no root of a log and is near one.
var ErrPlace = errors.New("mirror: not the root of a write-ahead log")

// NoMirrorError carries the keys at which the marker was found instead.
type NoMirrorError struct {
	Below    []string // directories below the URL that are the root of a mirror
	Objects  int      // found below the URL
	Segments int      // of them, in directories of tenant and index: a mirror whose marker is gone
	Inner    int      // segments without them: a place within a mirror
	Levels   int      // so many directories up is its root
}

func (e *NoMirrorError) Error() string { return ErrNoMirror.Error() }
func (e *NoMirrorError) Unwrap() error { return ErrNoMirror }

// Restore writes each segment of a mirror that the root at Dir does not have to its sealed/, whole, and decoded before. One
// of which the root has only a beginning counts as one that it does not have. What a user index holds is recorded as its segments say it.
// Durable when it returns. Idempotent; safe to interrupt and to run again: a crash leaves whole segments, and a
// temporary file that the next run replaces.
//
//	return  what was found and done, also beside an error
//	errors  *NoMirrorError; *MarkerError; *StoreError: the listing did not come; ErrPlace; *vfs.LockedError where somebody has the root and Online is not set, or is just making it; what is wrong with Dir. An object that
//	        cannot be read is no error: it is in the report
//	holds   MIR-1, ONE-1
func Restore(ctx context.Context, opt RestoreOptions) (Report, error) {
	opt.FS = cmp.Or(opt.FS, vfs.OS())
	opt.Concurrency = cmp.Or(opt.Concurrency, defaultDownloads)
	opt.AttemptTimeout = cmp.Or(opt.AttemptTimeout, defaultAttempt)
	if opt.Progress == nil {
		opt.Progress = func(int, int, int64) {}
	}
	if opt.Step == nil {
		opt.Step = func(string) {}
	}
	r := &restore{opt: opt, mem: semaphore.NewWeighted(downloadBytes), prepared: map[string]bool{}, kinds: map[string]map[string]ofKind{}, report: newReport()}
	found, err := r.list(ctx)
	if err != nil {
		return r.report.done(), err
	}
	locks, err := r.open(ctx)
	if err == nil {
		err = r.run(ctx, found)
	}
	return r.report.done(), errors.Join(err, locks.close())
}

type restore struct {
	opt  RestoreOptions
	root *segment.Root // nil in a dry run of a root that is not there
	mem  *semaphore.Weighted

	mu       sync.Mutex
	report   *report
	prepared map[string]bool              // lanes
	kinds    map[string]map[string]ofKind // what the rows of restored segments are, by lane
	finished int
	size     int64
}

// find is one object to restore.
type find struct {
	object

	key    string
	size   int64
	beside []local // beginnings of it that the root has
	others []find  // further objects of the segment, in the order in which they are tried
}

// open takes the locks of the root and makes it one. The caller gives the locks back, also after an error.
func (r *restore) open(ctx context.Context) (locks locks, err error) {
	r.root, err = segment.Open(r.opt.FS, r.opt.Dir)
	fresh := errors.Is(err, segment.ErrNotRoot)
	if err != nil && !fresh {
		return nil, err
	}
	if fresh {
		switch above, below, _ := segment.Nearby(r.opt.FS, r.opt.Dir); { // what cannot be read Vacant says
		case above != "":
			return nil, fmt.Errorf("%w: %s is inside one; give its root, %s", ErrPlace, r.opt.Dir, above)
		case below != "":
			return nil, fmt.Errorf("%w: %s is above one; give its root, %s", ErrPlace, r.opt.Dir, below)
		}
		if err := segment.Vacant(r.opt.FS, r.opt.Dir); err != nil || r.opt.DryRun {
			return nil, err
		}
		if err := r.opt.FS.MkdirAll(r.opt.Dir); err != nil {
			return nil, err
		}
	}
	var names []string
	switch {
	case r.opt.DryRun:
	case !r.opt.Online:
		names = []string{segment.LockName, segment.DrainLockName}
	case fresh: // a writer that starts for the first time makes the root too
		names = []string{segment.LockName}
	}
	for _, name := range names {
		l, err := r.opt.FS.Lock(filepath.Join(r.opt.Dir, name), r.opt.Holder)
		if err != nil {
			return locks, err
		}
		locks = append(locks, l)
	}
	if fresh {
		r.root, err = segment.Create(r.opt.FS, r.opt.Dir)
	}
	if !r.opt.Online {
		return locks, err
	}
	if err := errors.Join(err, locks.close()); err != nil || r.opt.DryRun {
		return nil, err
	}
	return r.announce(ctx)
}

// announce takes the lock that tells the drain of segments on their way, and waits for another restore that has it. A volume
// without locks has no drain.
func (r *restore) announce(ctx context.Context) (locks, error) {
	for {
		l, err := r.opt.FS.Lock(filepath.Join(r.opt.Dir, segment.RestoreLockName), r.opt.Holder)
		held, refused := errors.AsType[*vfs.LockedError](err)
		switch {
		case err == nil:
			return locks{l}, nil
		case vfs.NoLocks(err):
			return nil, nil
		case !refused:
			return nil, err
		}
		r.opt.Step("waiting for " + held.Holder)
		if !rest(ctx, lockEvery) {
			return nil, ctx.Err()
		}
	}
}

// locks are held together.
type locks []io.Closer

func (l locks) close() error {
	var errs []error
	for _, c := range l {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// run restores what is not there.
func (r *restore) run(ctx context.Context, found []find) error {
	have, err := r.have()
	if err != nil {
		return err
	}
	var todo []find
	for _, f := range found {
		f.beside = have[f.id]
		if aside := onlyPoison(f.beside); aside != "" {
			r.report.poisoned(f, aside)
			r.report.superseded(f, f.others)
			continue
		}
		covered, err := r.covered(f.beside, f)
		if err != nil {
			return err
		}
		if covered {
			r.report.present(f)
			r.report.superseded(f, f.others)
			continue
		}
		todo = append(todo, f)
	}
	if todo, err = r.choose(ctx, todo); err != nil {
		return err
	}
	g, working := errgroup.WithContext(ctx)
	g.SetLimit(r.opt.Concurrency)
	for _, f := range todo {
		if working.Err() != nil {
			break
		}
		g.Go(func() error {
			err := r.one(working, f)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.finished++
			r.size += f.size
			r.opt.Progress(r.finished, len(todo), r.size)
			return err
		})
	}
	if err := errors.Join(g.Wait(), ctx.Err()); err != nil {
		return err
	}
	return r.holdLanes()
}

// choose leaves out the lanes of which nothing is wanted. todo is in order of the lanes.
func (r *restore) choose(ctx context.Context, todo []find) ([]find, error) {
	if r.opt.Choice == nil {
		return todo, nil
	}
	var out []find
	for len(todo) > 0 {
		n := slices.IndexFunc(todo, func(f find) bool { return f.lane() != todo[0].lane() })
		if n < 0 {
			n = len(todo)
		}
		lane := todo[:n]
		todo = todo[n:]
		ids := make([]segment.ID, len(lane))
		for i, f := range lane {
			ids[i] = f.id
		}
		wanted, err := r.opt.Choice.Listed(ctx, lane[0].tenant, lane[0].index, ids)
		if err != nil {
			return nil, err
		}
		if wanted {
			out = append(out, lane...)
		}
	}
	return out, nil
}

// have is every name of a segment in the root, by id.
func (r *restore) have() (map[segment.ID][]local, error) {
	ids := map[segment.ID][]local{}
	if r.root == nil {
		return ids, nil
	}
	lanes, _, err := r.root.Lanes()
	if err != nil {
		return nil, err
	}
	for _, l := range lanes {
		if err := eachName(l, func(st segment.State, e segment.Entry) {
			ids[e.ID] = append(ids[e.ID], local{l, st, e.Name})
		}); err != nil {
			return nil, err
		}
		if err := r.clean(l, ids); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// eachName shows every name of a segment in a lane, of the further states too. States are listed in the order in which
// segments pass through them, sealed/ once more at the end, so that a running drain carries none past us.
func eachName(l segment.Lane, found func(segment.State, segment.Entry), more ...segment.State) error {
	for _, st := range append(more, segment.Active, segment.Sealed, segment.Processing, segment.Orphans,
		segment.Stale, segment.Poison, segment.Committed, segment.Sealed) {
		entries, _, err := l.List(st)
		if err != nil {
			return err
		}
		for _, e := range entries {
			found(st, e)
		}
	}
	return nil
}

// clean removes the temporary files that an interrupted run left. Beside a drain and perhaps another run those that may be
// somebody's stay: that of a segment without a name is replaced when the segment is written.
func (r *restore) clean(l segment.Lane, have map[segment.ID][]local) error {
	all := func(string) bool { return true }
	switch {
	case r.opt.DryRun:
		return nil
	case r.opt.Online:
		return r.cleanState(l, r.state(), func(temp string) bool {
			id, _, err := segment.ParseName(strings.TrimSuffix(temp, vfs.TempName("")))
			return err == nil && len(have[id]) > 0
		})
	}
	return errors.Join(r.cleanState(l, segment.Sealed, all), r.cleanState(l, segment.Orphans, all))
}

func (r *restore) cleanState(l segment.Lane, st segment.State, dead func(temp string) bool) error {
	entries, err := r.opt.FS.List(l.Dir(st))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir || !vfs.IsTemp(e.Name) || !dead(e.Name) {
			continue
		}
		if err := r.opt.FS.Remove(l.Path(st, e.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
