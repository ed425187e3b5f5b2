package wal

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// saidHealth keeps what a log last said of itself.
type saidHealth struct{ last atomic.Pointer[error] }

func (v *saidHealth) hear(err error) { v.last.Store(&err) }
func (v *saidHealth) now() error     { return *v.last.Load() }

// look lets the watcher look once more.
func look() {
	time.Sleep(2 * watchEvery)
	synctest.Wait()
}

// crashed is a disk with five acknowledged rows in an open segment and no process, and what they take.
func crashed(t *testing.T) (*simfs.FS, int64) {
	t.Helper()
	disk := simfs.New(nil)
	l := open(t, options(disk, "/wal"))
	for id := range int64(5) {
		_, err := l.Append(t.Context(), request(t, WaitFor, id+1))
		require.NoError(t, err)
	}
	after := disk.Crash(simfs.KeepAll, rand.New(rand.NewPCG(1, 1))) //nolint:gosec // nothing is left to chance
	used := l.space.look().used
	closeLog(t, l)
	return after, used
}

func removeSealed(t *testing.T, disk *simfs.FS) {
	t.Helper()
	for _, name := range names(t, disk, "/wal", segment.Sealed) {
		require.NoError(t, disk.Remove("/wal/t/events/sealed/"+name))
	}
}

// A root that is over its limit when it is opened opens, recovers, says that it is full, refuses, and takes requests
// again when the drain has made room. Nobody restarts it. B1, B4, BND-1.
func TestFull_root_at_its_limit_from_the_start(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, used := crashed(t)
		var health saidHealth
		opt := options(disk, "/wal")
		opt.MaxBytes, opt.Health = used-1, health.hear
		l := open(t, opt)
		require.ErrorIs(t, health.now(), ErrFull, "before the first request")
		require.Equal(t, []int64{1, 2, 3, 4, 5}, idsIn(scan(t, disk, "/wal"), segment.Sealed))
		_, err := l.Append(t.Context(), request(t, WaitFor, 6))
		require.ErrorIs(t, err, ErrFull)
		look()
		require.ErrorIs(t, health.now(), ErrFull)
		removeSealed(t, disk)
		look()
		require.NoError(t, health.now(), "without a request")
		_, err = l.Append(t.Context(), request(t, WaitFor, 6))
		require.NoError(t, err)
		closeLog(t, l)
	})
}

// Not a byte of room on the volume: the root opens all the same, shows what was acknowledged in sealed/ for the
// drain, and refuses; when others have freed the volume, it serves. Moves and deletes need no byte. B1.
func TestFull_disk_from_the_start(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, _ := crashed(t)
		var health saidHealth
		opt := options(disk, "/wal")
		opt.Health = health.hear
		disk.SetSpace(vfs.Space{Free: 0, Total: 1 << 30})
		disk.SetHook(func(op simfs.Op) error {
			switch op.Kind {
			case simfs.Create, simfs.Mkdir, simfs.Writev: // WriteAt is over bytes that are there
				return syscall.ENOSPC
			}
			return nil
		})
		l := open(t, opt)
		require.Equal(t, []int64{1, 2, 3, 4, 5}, idsIn(scan(t, disk, "/wal"), segment.Sealed))
		require.ErrorIs(t, health.now(), ErrFull)
		_, err := l.Append(t.Context(), request(t, Auto, 6))
		refusedBy(t, err, LimitError{Limit: limitFree, Used: -int64(len(request(t, Auto, 6).Body)), Max: 1})

		removeSealed(t, disk) // the drain works meanwhile
		disk.SetHook(nil)
		disk.SetSpace(vfs.Space{Free: 1 << 30, Total: 1 << 30})
		look()
		require.NoError(t, health.now())
		_, err = l.Append(t.Context(), request(t, WaitFor, 6))
		require.NoError(t, err)
		closeLog(t, l)
	})
}

// At the hard mark the log says so, and says so until what was refused would be let in. A body that never fits does
// not keep it ill once the log is below the soft mark; refused auto does not make it ill.
func TestHealth_hard_mark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		disk := simfs.New(nil)
		var health saidHealth
		opt := options(disk, "/wal")
		opt.MaxBytes, opt.MaxEvents, opt.Health = 20_000, 1, health.hear
		l := open(t, opt)
		require.NoError(t, health.now())

		_, err := l.Append(ctx, request(t, WaitFor, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20))
		require.ErrorIs(t, err, ErrFull, "more than all of it")
		look()
		require.NoError(t, health.now(), "an empty log is not full")

		for id := int64(1); ; id++ {
			if _, err = l.Append(ctx, request(t, Auto, id)); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, ErrFull)
		look()
		require.NoError(t, health.now(), "wait_for is served")

		for id := int64(100); ; id++ {
			if _, err = l.Append(ctx, request(t, WaitFor, id)); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, ErrFull)
		look()
		require.ErrorIs(t, health.now(), ErrFull)
		look()
		require.ErrorIs(t, health.now(), ErrFull, "no request comes, and it is full all the same")

		first := names(t, disk, "/wal", segment.Sealed)[:2]
		for _, name := range first {
			require.NoError(t, disk.Remove("/wal/t/events/sealed/"+name))
		}
		look()
		require.NoError(t, health.now())
		closeLog(t, l)
	})
}

// A disk that refuses to seal is told of without a request, and so is that it seals again.
func TestHealth_seal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := simfs.New(nil)
		var health saidHealth
		opt := options(disk, "/wal")
		opt.MaxAge, opt.Health = time.Second, health.hear
		l := open(t, opt)
		_, err := l.Append(t.Context(), request(t, WaitFor, 1))
		require.NoError(t, err)
		disk.SetHook(func(op simfs.Op) error {
			if op.Kind == simfs.Sync {
				return syscall.EIO
			}
			return nil
		})
		look()
		require.ErrorIs(t, health.now(), syscall.EIO)
		disk.SetHook(nil)
		time.Sleep(time.Minute) // the sealer's own pause
		synctest.Wait()
		require.NoError(t, health.now())
		closeLog(t, l)
		require.Equal(t, []int64{1}, idsIn(scan(t, disk, "/wal"), segment.Sealed))
	})
}

// A lock file that is deleted by hand is taken again. One that was replaced may be another process's: nothing is
// accepted any more.
func TestHealth_lock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		disk := simfs.New(nil)
		var health saidHealth
		opt := options(disk, "/wal")
		opt.Health = health.hear
		l := open(t, opt)
		require.NoError(t, disk.Remove("/wal/LOCK"))
		look()
		require.NoError(t, health.now())
		_, err := Open(ctx, options(disk, "/wal"))
		var locked *vfs.LockedError
		require.ErrorAs(t, err, &locked, "it is held again")
		_, err = l.Append(ctx, request(t, WaitFor, 1))
		require.NoError(t, err)

		require.NoError(t, disk.Remove("/wal/LOCK"))
		other, err := disk.Lock("/wal/LOCK", "another")
		require.NoError(t, err)
		look()
		require.ErrorIs(t, health.now(), ErrLockLost)
		_, err = l.Append(ctx, request(t, WaitFor, 2))
		require.ErrorIs(t, err, ErrLockLost)
		require.NoError(t, other.Close())
		look()
		_, err = l.Append(ctx, request(t, WaitFor, 2))
		require.ErrorIs(t, err, ErrLockLost, "it may have recovered what is open here")
		closeLog(t, l)
	})
}

// Where the root is shared, leases keep the segments: whoever replaced the lock file, the shared lock is taken on
// the new one.
func TestHealth_shared_lock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := simfs.New(nil)
		var health saidHealth
		opt := options(disk, "/wal")
		opt.Shared, opt.Health = true, health.hear
		l := open(t, opt)
		require.NoError(t, disk.Remove("/wal/LOCK"))
		other, err := disk.LockShared("/wal/LOCK", "another that shares")
		require.NoError(t, err)
		look()
		require.NoError(t, health.now())
		_, err = l.Append(t.Context(), request(t, WaitFor, 1))
		require.NoError(t, err)
		require.NoError(t, other.Close())
		closeLog(t, l)
	})
}
