package wal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

const (
	// makingRoot begins the text of LOCK while one of several processes that start at once makes the root.
	makingRoot = "making the root: "
	// joinPause and joinTries bound the wait for it: some syncs, which a busy disk may draw out.
	joinPause = 50 * time.Millisecond
	joinTries = 200

	// writerTries bounds the race with an adopter who takes a lease between our making its file and locking it.
	writerTries = 8
)

// join takes the shared lock of the directory, and makes it a root first where it is none yet.
func (l *Log) join(ctx context.Context) error {
	for try := 0; ; try++ {
		err := l.joinOnce()
		var locked *vfs.LockedError
		switch {
		case err == nil:
			if err := l.root.PrepareLeases(); err != nil {
				return errors.Join(err, l.lock.Close())
			}
			return nil
		case unmade(err): // its maker has just let go of it, or has died
		case errors.As(err, &locked) && strings.HasPrefix(locked.Holder, makingRoot):
		default:
			return err
		}
		if try == joinTries {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(joinPause):
		}
	}
}

func (l *Log) joinOnce() (err error) {
	dir := l.opt.Dir
	name := filepath.Join(dir, segment.LockName)
	if err := l.makeRoot(name); err != nil {
		return err
	}
	l.lock, err = l.fs.LockShared(name, l.opt.lockText())
	if vfs.NoLocks(err) {
		l.goSilent(err)
		err = nil
	}
	if err != nil {
		return err
	}
	if _, err = segment.Open(l.fs, dir); err == nil {
		l.root, err = segment.Create(l.fs, dir) // makes nothing; syncs a name that a killed process may have left
	}
	if err != nil {
		return errors.Join(err, l.lock.Close())
	}
	return nil
}

// makeRoot makes the root, or mends its damaged marker, with the whole lock in hand. It does nothing to a root.
func (l *Log) makeRoot(lockName string) error {
	_, missing := segment.Open(l.fs, l.opt.Dir)
	if !unmade(missing) {
		return nil // a root, or trouble that the next step reports
	}
	lock, err := l.fs.Lock(lockName, makingRoot+l.opt.lockText())
	if _, held := errors.AsType[*vfs.LockedError](err); held {
		// By a maker, or by somebody who has found the root made since we looked: look again.
		return fmt.Errorf("%w: %w", missing, err)
	}
	if vfs.NoLocks(err) {
		lock, err = io.NopCloser(nil), nil
	}
	if err != nil {
		return err
	}
	root, err := segment.Create(l.fs, l.opt.Dir)
	if err == nil {
		l.tellMended(root)
	}
	return errors.Join(err, lock.Close())
}

func unmade(err error) bool {
	return errors.Is(err, segment.ErrNotRoot) || errors.Is(err, segment.ErrDamagedRoot)
}

// explain adds to an error of Open what its reader can do.
func explain(opt *Options, err error) error {
	var locked *vfs.LockedError
	switch {
	case errors.As(err, &locked) && errors.Is(err, segment.ErrDamagedRoot):
		return fmt.Errorf("open wal %s: %w; a process that starts alone mends it: stop those that share it, then start them again", opt.Dir, err)
	case errors.As(err, &locked) && opt.Shared:
		return fmt.Errorf("open wal %s: %w; it is not shared: every process on one WAL sets wal.shared: true, or this one another wal.directory", opt.Dir, err)
	case errors.As(err, &locked):
		return fmt.Errorf("open wal %s: %w; one process writes a WAL: stop that one, set another wal.directory, or set wal.shared: true for all of them", opt.Dir, err)
	case vfs.NoLocks(err):
		return fmt.Errorf("open wal %s: %w; the volume has no file locks: set another wal.directory, or read about wal.shared: true", opt.Dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("open wal %s: uid %d may not write there: %w; change its owner or set wal.directory", opt.Dir, os.Getuid(), err)
	default:
		return fmt.Errorf("open wal %s: %w (wal.directory)", opt.Dir, err)
	}
}

// newWriter names a lane in this life of the process. Where the root is shared its lease is held, durably named,
// before anything can bear the name; else there is none.
func (l *Log) newWriter() (w [6]byte, lease *segment.Lease, err error) {
	for range writerTries {
		_, _ = rand.Read(w[:]) // never fails: crypto/rand ends the program instead
		if !l.opt.Shared {
			return w, nil, nil
		}
		lease, err = l.lease(w)
		if _, taken := errors.AsType[*vfs.LockedError](err); taken {
			continue
		}
		if err != nil {
			return w, nil, fmt.Errorf("take a lease: %w", err)
		}
		if err := l.root.SyncLeases(); err != nil {
			return w, nil, errors.Join(fmt.Errorf("take a lease: %w", err), lease.End())
		}
		l.leasesMu.Lock()
		l.leases[w] = lease
		l.leasesMu.Unlock()
		return w, lease, nil
	}
	return w, nil, fmt.Errorf("take a lease: %w", err)
}

func (l *Log) lease(w [6]byte) (*segment.Lease, error) {
	if l.silence != nil {
		return l.root.LeaseUnlocked(w, l.opt.lockText())
	}
	return l.root.Lease(w, l.opt.lockText())
}

// endLease gives up the lease of one of our writers that has no file in active/ any more.
func (l *Log) endLease(w [6]byte, lease *segment.Lease) {
	if lease == nil {
		return
	}
	l.leasesMu.Lock()
	delete(l.leases, w)
	l.leasesMu.Unlock()
	if err := lease.End(); err != nil {
		l.opt.Logger.Warn("lease not removed, another start does it", zap.Error(err))
	}
}

// endLeases is endLease for all, at the end of the log. What could not be sealed is anybody's to adopt then.
func (l *Log) endLeases() error {
	l.leasesMu.Lock()
	defer l.leasesMu.Unlock()
	var errs []error
	for _, lease := range l.leases {
		errs = append(errs, lease.End())
	}
	clear(l.leases)
	return errors.Join(errs...)
}

// ours tells whether a writer is one of this process.
func (l *Log) ours(w [6]byte) bool {
	l.leasesMu.Lock()
	defer l.leasesMu.Unlock()
	return l.leases[w] != nil
}

// errMoved: a segment of ours is in active/ no longer, and we did not move it.
var errMoved = errors.New("the open segment is gone from active/")

// hire gives the lane a writer for its next segment.
func (ln *lane) hire() error {
	if ln.lease != nil && ln.lease.Check() != nil { // lost while nothing was open
		ln.dismiss()
	}
	if ln.namer != nil {
		return nil
	}
	w, lease, err := ln.log.newWriter()
	if err != nil {
		return err
	}
	ln.writer, ln.lease, ln.namer = w, lease, segment.NewNamer(w)
	return nil
}

// held returns nil while the open segment is ours: its lease, and its name in active/. It is asked after a write and
// before its answer. An adopter reads what it finds after the lease is lost, and an answer given before that is for
// rows it finds. The name is looked at also without a lease, because a lock cannot see its own file being removed:
// then another process starts beside this one and takes its segments, or somebody removes them by hand, and what is
// written to a file without a name is nowhere.
func (ln *lane) held(s *openSegment) error {
	if err := s.owned(); err != nil {
		return err
	}
	switch info, err := ln.log.fs.Stat(s.path); {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.Inode != s.inode:
		return errMoved
	default:
		return nil // other trouble meets the next write or sync
	}
}

// owned returns nil while no other process may take the segment for a dead writer's.
func (s *openSegment) owned() error {
	if s.lease == nil {
		return nil
	}
	return s.lease.Check()
}

// abandon gives up the lane's writer and its open segment, which may be somebody else's by now. Nothing more is done
// to the files: who finds them without a held lease adopts them. The next request gets another writer.
func (ln *lane) abandon() {
	s := ln.cur
	_ = s.file.Close() // nothing more is promised of it
	ln.log.unsealed.remove(s)
	ln.seized(s, s.lost)
	ln.cur, ln.hot = nil, false
	ln.dismiss()
}

// dismiss gives up the lane's writer, which has no segment open.
func (ln *lane) dismiss() {
	if spare := ln.takeSpare(); spare != nil {
		_ = spare.file.Close() // it has no row
	}
	for _, id := range ln.voided {
		ln.skip(id)
	}
	ln.log.endLease(ln.writer, ln.lease)
	ln.voided, ln.namer, ln.lease = nil, nil, nil
}

// seized counts a segment of ours that another process has taken for a dead writer's, or may have.
func (ln *lane) seized(s *openSegment, err error) {
	ln.log.met.seized.Add(context.Background(), 1)
	ln.log.opt.Logger.Error("an open segment of this process was taken from it: either it was taken for dead, then what was acknowledged is in that segment in "+
		"sealed/ or later, or somebody has removed the file, then that is lost. Was it stopped for long? Is LOCK still there?",
		zap.String("dir", ln.seg.Dir(segment.Active)), zap.String("segment", s.id.String()), zap.Error(err))
}
