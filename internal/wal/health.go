package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// health returns what stands in the way of every request, nil when nothing does.
func (l *Log) health() error {
	if err := l.checkLock(); err != nil {
		return err
	}
	for _, ln := range l.allLanes() {
		ln.mu.Lock()
		err := ln.sealErr
		ln.mu.Unlock()
		if err != nil {
			return fmt.Errorf("seal in %s: %w", ln.seg.Key(), err)
		}
	}
	return l.space.standing()
}

// rememberLock notes which file was locked: flock holds a file, not its name.
func (l *Log) rememberLock() error {
	if l.silence != nil {
		return nil // the volume has no locks
	}
	info, err := l.fs.Stat(filepath.Join(l.opt.Dir, segment.LockName))
	if err != nil {
		return fmt.Errorf("look at the lock file: %w", err)
	}
	l.lockInode = info.Inode
	return nil
}

// checkLock looks whether the locked file still has its name, and takes the lock again where that is safe.
//
// A name that is gone was deleted by hand: nobody can have taken the root since. A name that leads to another file is
// somebody else's lock, who may have recovered what this process has open: from then on nothing is accepted until
// it has been started again. Where the root is shared leases keep the open segments, and it is enough to hold the
// lock that the others hold.
func (l *Log) checkLock() error {
	if l.silence != nil {
		return nil
	}
	name := filepath.Join(l.opt.Dir, segment.LockName)
	info, err := l.fs.Stat(name)
	switch {
	case err == nil && info.Inode == l.lockInode:
		l.lockLost.Store(false)
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look at %s: %w", name, err)
	case err == nil && !l.opt.Shared:
		if !l.lockLost.Swap(true) {
			l.opt.Logger.Error("the lock file was replaced: another process may write this log; nothing is accepted until this process is started again",
				zap.String("file", name))
		}
		return ErrLockLost
	}
	l.lockLost.Store(true)
	take := l.fs.Lock
	if l.opt.Shared {
		take = l.fs.LockShared
	}
	again, err := take(name, l.opt.lockText())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLockLost, err)
	}
	old := l.lock
	l.lock = again
	l.opt.Logger.Warn("the lock file was deleted and the lock is taken again; leave it where it is", zap.String("file", name))
	if err := errors.Join(old.Close(), l.rememberLock()); err != nil {
		return err
	}
	l.lockLost.Store(false)
	return nil
}
