package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

const (
	// watchEvery is how old the measured usage may be. Own writes are added at once; what the drain frees is
	// seen after this long.
	watchEvery = 2 * time.Second
	// watchShare bounds the walk to 1/watchShare of one core, whatever the number of segments.
	watchShare = 20

	// defaultShare, softShare and freeShare are percentages: of the volume for max_bytes, of max_bytes for the
	// mark that refuses Auto, of the volume for min_free.
	defaultShare = 75
	softShare    = 80
	freeShare    = 5
	minFreeFloor = 512 << 20
)

// space decides whether a request may come in. It is exact for what this process writes and up to watchEvery
// behind for what others free.
type space struct {
	fs                vfs.FS
	dir               string
	wall              func() time.Time
	maxBytes, minFree int64

	written atomic.Int64 // bytes this process has appended since Open

	mu       sync.Mutex
	inFlight share // bytes of bodies admitted and not yet answered
	waiting  share // requests between Enter and Leave
	walked   int64 // bytes found by the last walk
	volume   vfs.Space
	sinceAt  int64 // value of written when that walk began
	blocked  int64 // bytes of the largest body that the disk's limits refused to every mode, since it was last well
	backlog  *backlog
}

func newSpace(opt *Options, fsys vfs.FS) *space {
	return &space{
		fs: fsys, dir: opt.Dir, wall: opt.Now, backlog: newBacklog(time.Time{}), maxBytes: opt.MaxBytes, minFree: opt.MinFree,
		inFlight: share{limit: limitInFlight, max: opt.MaxInFlight, fair: opt.FairShare},
		waiting:  share{limit: limitWaiting, max: int64(opt.MaxWaiting), fair: opt.FairShare},
	}
}

// admit lets n bytes of tenant in, or says which limit refuses them. The caller releases what was admitted.
func (s *space) admit(tenant string, mode Mode, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full := s.inFlight.take(tenant, n); full != nil {
		return full
	}
	if full := s.roomLocked(mode, 0); full != nil {
		s.inFlight.give(tenant, n)
		if mode != Auto {
			s.blocked = max(s.blocked, n)
		}
		return full
	}
	return nil
}

func (s *space) release(tenant string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.give(tenant, n)
}

// roomLocked checks the disk limits with everything in flight, and more bytes, taken as written, so that no race
// passes them.
func (s *space) roomLocked(mode Mode, more int64) *LimitError {
	since := s.written.Load() - s.sinceAt + s.inFlight.total + more
	limit := s.limitLocked()
	if mode == Auto {
		limit = limit / 100 * softShare
	}
	if used := s.walked + since; used > limit {
		return &LimitError{Limit: limitBytes, Used: used, Max: limit}
	}
	floor := s.floorLocked()
	if free := s.volume.Free - since; free < floor {
		return &LimitError{Limit: limitFree, Used: free, Max: floor}
	}
	return nil
}

// standing returns the disk limit that stands in everybody's way: a mark is passed, or what it refused last would
// be refused again. It goes by itself when the drain has made room, at the latest below the soft mark: a body
// that never fits does not make it stay.
func (s *space) standing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limitLocked()
	if full := s.roomLocked(WaitFor, min(s.blocked, limit-limit/100*softShare)); full != nil {
		return full
	}
	s.blocked = 0
	return nil
}

// usage is what is used of each limit, the limits that depend on the volume, and the backlog of the last walk.
type usage struct{ used, limit, free, floor, inFlight, largest, waiting, backlog int64 }

func (s *space) look() usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.written.Load() - s.sinceAt
	return usage{
		used: s.walked + since, limit: s.limitLocked(), free: s.volume.Free - since, floor: s.floorLocked(),
		inFlight: s.inFlight.total, largest: s.inFlight.largest(), waiting: s.waiting.total, backlog: s.backlog.bytes,
	}
}

// behind is the backlog of the last walk. It is not changed any more.
func (s *space) behind() *backlog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backlog
}

func (s *space) limitLocked() int64 {
	limit, _ := DefaultLimits(s.volume)
	return cmp.Or(s.maxBytes, limit)
}

func (s *space) floorLocked() int64 {
	_, floor := DefaultLimits(s.volume)
	return cmp.Or(s.minFree, floor)
}

// DefaultLimits are MaxBytes and MinFree, in bytes, where Options leave them to the volume.
func DefaultLimits(volume vfs.Space) (maxBytes, minFree int64) {
	return volume.Total / 100 * defaultShare, max(volume.Total/100*freeShare, minFreeFloor)
}

// measure walks the root and asks the volume. A file with several names counts once.
func (s *space) measure(ctx context.Context) error {
	before := s.written.Load()
	w := &walk{space: s, seen: map[uint64]struct{}{}, backlog: newBacklog(s.wall())}
	walked, err := w.below(ctx, s.dir)
	if err != nil {
		return fmt.Errorf("measure %s: %w", s.dir, err)
	}
	volume, err := s.fs.Space(s.dir)
	if err != nil {
		return fmt.Errorf("measure the volume of %s: %w", s.dir, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walked, s.volume, s.sinceAt, s.backlog = walked, volume, before, w.backlog
	return nil
}

// walk is one look at all files of the root.
type walk struct {
	*space
	seen    map[uint64]struct{} // inodes
	backlog *backlog
}

// below adds up the files below dir. Names come and go meanwhile: what is gone counts nothing.
func (w *walk) below(ctx context.Context, dir string) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	entries, err := w.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) && dir != w.dir {
		return 0, nil // gone, or lost+found
	}
	if err != nil {
		return 0, err
	}
	var total int64
	for _, e := range entries {
		if dir == w.dir && segment.IsReserve(e.Name) {
			continue
		}
		name := filepath.Join(dir, e.Name)
		if e.IsDir {
			n, err := w.below(ctx, name)
			if err != nil {
				return 0, err
			}
			total += n
			continue
		}
		info, err := w.fs.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		w.backlog.note(dir, info)
		if _, twice := w.seen[info.Inode]; !twice {
			w.seen[info.Inode] = struct{}{}
			total += info.Size
		}
	}
	return total, nil
}

// keepReserve lets the drain work on when the volume gets full, as long as there is room to keep for that.
func (l *Log) keepReserve() {
	if u := l.space.look(); u.free-u.floor < segment.ReserveBytes {
		return
	}
	if err := l.root.KeepReserve(); err != nil {
		l.opt.Logger.Warn("no reserve for the drain on a full volume, will be tried again", zap.Error(err))
	}
}
