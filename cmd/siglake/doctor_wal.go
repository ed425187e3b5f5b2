package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// The checks of the volume of the log.
var (
	walDirectory = check{
		name: "wal-directory", costs: "the collector does not start",
		fix: "set exporters::siglake::wal::directory to an empty directory or a WAL root that the collector's user may write to",
	}
	walFileSystem = check{
		name: "wal-file-system", costs: "rows that were acknowledged with wait_for can be lost with the power, the container or the server",
		fix: "put the log on ext4 or xfs of a disk attached to this machine",
	}
	walWrite     = check{name: "wal-write", costs: "every request is refused", fix: "give the collector's user the directory, and the volume room"}
	walHardLinks = check{
		name: "wal-hard-links", costs: "segments change state by rename: a power cut can lose the name of one; the mirror cannot pin, so a drain can be faster than it",
		fix: "put the log on ext4 or xfs",
	}
	walRename = check{name: "wal-rename", costs: "small records are not replaced whole: the drain stops", fix: "put the log on ext4 or xfs"}
	walLocks  = check{
		name: "wal-locks", costs: "two collectors can write one log, and each can take the other's segments",
		fix: "put the log on a volume with working flock(2) (NFS: not nolock, not local_lock)",
	}
	walFsync = check{
		name: "wal-fsync", costs: "every wait_for request is refused",
		fix: "look into the kernel's log; replace the disk or the mount",
	}
	walFsyncTime = check{
		name: "wal-fsync-time", costs: "if fsync does nothing, a power cut loses rows that were acknowledged",
		fix: "look at the write cache of the disk, the hypervisor's cache mode and what stands in for fsync; cut the power once and count",
	}
	walRoom = check{
		name: "wal-room", costs: "every request is refused with 429 until the drain or somebody makes room",
		fix: "a larger volume, or wal::max_bytes and wal::min_free that fit it",
	}
)

func walTries() []check {
	return []check{walWrite, walHardLinks, walRename, walLocks, walFsync, walFsyncTime}
}

// checkWAL looks at the directory of the log and tries its volume.
func (d *doctor) checkWAL(ctx context.Context) {
	d.silent = false
	var at string
	usable := d.try(ctx, walDirectory, func(context.Context) (v verdict) {
		at, v = d.place()
		return v
	})
	if d.silent || at == "" {
		d.skip("there is no directory to look at", slices.Concat([]check{walFileSystem}, walTries(), []check{walRoom})...)
		return
	}
	d.try(ctx, walFileSystem, func(context.Context) verdict { return d.fileSystem(at) })
	if usable {
		d.tryVolume(ctx, at)
	} else {
		d.skip("the directory is not one for a log", walTries()...)
	}
	d.try(ctx, walRoom, func(context.Context) verdict { return d.room(at) })
}

// place finds the directory of the log, or the one in which it would be made.
func (d *doctor) place() (at string, v verdict) {
	dir, err := filepath.Abs(d.walDir())
	if err != nil {
		return "", ok(err, "")
	}
	if _, err := d.fs.List(dir); errors.Is(err, fs.ErrNotExist) {
		for at = dir; errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at); {
			at = filepath.Dir(at)
			_, err = d.fs.List(at)
		}
		if err != nil {
			return "", ok(err, "")
		}
		return at, verdict{passed, fmt.Sprintf("%s is not there yet; looked at %s, where it would be made", dir, at), ""}
	} else if err != nil {
		return "", ok(err, "")
	}
	root, err := segment.Open(d.fs, dir)
	switch {
	case errors.Is(err, segment.ErrNotRoot):
		return dir, ok(segment.Vacant(d.fs, dir), "%s is empty; the exporter makes it a WAL root", dir)
	case errors.Is(err, segment.ErrDamagedRoot):
		return dir, verdict{warned, err.Error(), "start the collector: it keeps the damaged file aside and writes another"}
	case err != nil:
		return dir, ok(err, "")
	}
	seen := dir + " is a WAL root"
	if who := d.holder(root, segment.LockName); who != "" {
		seen += ", its LOCK last held by " + who
	}
	return dir, verdict{passed, seen, ""}
}

// room compares what is free with the limits as they are by default.
func (d *doctor) room(at string) verdict {
	space, err := d.fs.Space(at)
	if err != nil {
		return ok(err, "")
	}
	most, floor := wal.DefaultLimits(space)
	seen := fmt.Sprintf("%s of %s free; by default wal::max_bytes is %s and wal::min_free keeps %s",
		humanBytes(space.Free), humanBytes(space.Total), humanBytes(most), humanBytes(floor))
	switch {
	case space.Free < floor:
		return verdict{failed, seen, ""}
	case space.Free < 2*floor:
		return verdict{warned, seen, ""}
	}
	return verdict{passed, seen, ""}
}

// tryVolume tries the volume in a directory of its own and removes it.
func (d *doctor) tryVolume(ctx context.Context, at string) {
	p := &volumeProbe{fs: d.fs, dir: filepath.Join(at, segment.DoctorName)}
	defer func() {
		if d.silent {
			return // the removal would not come back either; the next doctor does it
		}
		if err := p.remove(); err != nil {
			d.report(check{name: "wal-clean-up", costs: "a directory stays in the log's; nothing reads it", fix: "remove it: " + p.dir},
				verdict{warned, err.Error(), ""})
		}
	}()
	if !d.try(ctx, walWrite, p.write) {
		d.skip("nothing can be tried without a file", walTries()[1:]...)
		return
	}
	d.try(ctx, walHardLinks, p.links)
	d.try(ctx, walRename, p.rename)
	d.try(ctx, walLocks, p.locks)
	d.try(ctx, walFsync, p.sync)
	d.try(ctx, walFsyncTime, p.syncTime)
}

// volumeProbe tries what the log does with a volume on files of its own, in one directory.
type volumeProbe struct {
	fs   vfs.FS
	dir  string
	made bool      // the directory is ours to remove
	lock io.Closer // keeps another doctor away; nil on a volume without locks
}

const (
	probeFile  = "file"
	probeSize  = 64 << 10
	probeLock  = "lock"
	probeBlock = 4 << 10
	// probeSyncs and probeSyncing bound how often fsync is timed.
	probeSyncs   = 32
	probeSyncing = 2 * time.Second
	// fastest is below what a disk needs to answer a flush: a system call that writes nothing takes a few microseconds, the
	// fastest devices with a journal in front some ten.
	fastest = 10 * time.Microsecond
)

func (p *volumeProbe) path(name string) string { return filepath.Join(p.dir, name) }

// write makes the directory, which a doctor that was killed may have left, and a file in it.
func (p *volumeProbe) write(context.Context) verdict {
	err := p.fs.Mkdir(p.dir)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		if errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("uid %d may not write there: %w", os.Getuid(), err)
		}
		return ok(err, "")
	}
	p.lock, err = p.fs.Lock(p.path(probeLock), fmt.Sprintf("siglake doctor, pid %d", os.Getpid()))
	if locked, held := errors.AsType[*vfs.LockedError](err); held {
		return verdict{failed, fmt.Sprintf("another doctor is at it: %s (%s)", locked.Holder, locked.Name), "wait for it"}
	}
	if err != nil && !vfs.NoLocks(err) {
		return ok(err, "")
	}
	p.made = true
	if err := p.empty(); err != nil {
		return ok(err, "")
	}
	f, err := p.fs.Create(p.path(probeFile))
	if err != nil {
		return ok(err, "")
	}
	content := bytes.Repeat([]byte("siglake doctor\n "), probeSize/16)
	_, err = f.Writev([][]byte{content})
	got := make([]byte, len(content))
	if err == nil {
		_, err = f.ReadAt(got, 0)
	}
	if err == nil && !bytes.Equal(got, content) {
		err = errors.New("other bytes came back than were written")
	}
	return ok(errors.Join(err, f.Close()), "%s written and read back", humanBytes(probeSize))
}

// links gives the file a second name.
func (p *volumeProbe) links(context.Context) verdict {
	err := p.fs.Link(p.path(probeFile), p.path("link"))
	if vfs.NoLinks(err) {
		return verdict{warned, err.Error(), ""}
	}
	if err != nil {
		return ok(err, "")
	}
	one, err := p.fs.Stat(p.path(probeFile))
	two, err2 := p.fs.Stat(p.path("link"))
	if err = errors.Join(err, err2); err == nil && one.Inode != two.Inode {
		err = fmt.Errorf("the two names lead to two files, inodes %d and %d", one.Inode, two.Inode)
	}
	return ok(err, "one file, two names")
}

// rename puts a file over another.
func (p *volumeProbe) rename(context.Context) verdict {
	const newer = "newer\n"
	err := vfs.WriteFile(p.fs, p.path("record"), []byte("older\n"))
	if err == nil {
		err = vfs.WriteFile(p.fs, p.path("record"), []byte(newer))
	}
	var got []byte
	if err == nil {
		got, err = vfs.ReadFile(p.fs, p.path("record"))
	}
	if err == nil && string(got) != newer {
		err = fmt.Errorf("%q is there after %q was renamed over it", got, newer)
	}
	return ok(err, "a file took the place of another")
}

// locks takes the lock of a file and asks for it once more.
func (p *volumeProbe) locks(context.Context) verdict {
	name := p.path("locked")
	first, err := p.fs.Lock(name, "first")
	if vfs.NoLocks(err) {
		return verdict{failed, err.Error(), "another volume; where all collectors have wal::shared: true the log works without locks, by silence (docs/lifecycle.md)"}
	}
	if err != nil {
		return ok(err, "")
	}
	second, err := p.fs.Lock(name, "second")
	if err == nil {
		return ok(errors.Join(errors.New("two holders at once: flock succeeds and does nothing"), second.Close(), first.Close()), "")
	}
	if _, held := errors.AsType[*vfs.LockedError](err); !held {
		return ok(errors.Join(err, first.Close()), "")
	}
	err = first.Close()
	if err == nil {
		if second, err = p.fs.Lock(name, "third"); err == nil {
			err = second.Close()
		}
	}
	return ok(err, "a second holder is refused, on this machine; other machines were not asked")
}

// sync asks whether fsync of a file and of a directory answer.
func (p *volumeProbe) sync(context.Context) verdict {
	f, err := p.fs.OpenRW(p.path(probeFile))
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err == nil {
		err = p.fs.SyncDir(p.dir)
	}
	return ok(err, "a file and a directory are synced")
}

// syncTime looks how long a small write and its fsync take.
func (p *volumeProbe) syncTime(ctx context.Context) verdict {
	f, err := p.fs.OpenRW(p.path(probeFile))
	if err != nil {
		return ok(err, "")
	}
	var took []time.Duration
	block := make([]byte, probeBlock)
	for end := time.Now().Add(probeSyncing); err == nil && len(took) < probeSyncs && ctx.Err() == nil && time.Now().Before(end); {
		if _, err = f.Writev([][]byte{block}); err == nil {
			began := time.Now()
			err = f.Sync()
			took = append(took, time.Since(began))
		}
	}
	err = errors.Join(err, f.Close())
	if len(took) == 0 {
		err = cmp.Or(err, ctx.Err())
	}
	if err != nil {
		return ok(err, "")
	}
	return judgeSyncs(took)
}

func judgeSyncs(took []time.Duration) verdict {
	slices.Sort(took)
	median := took[len(took)/2]
	seen := fmt.Sprintf("median %s, slowest %s of %d fsyncs after 4 KiB", rounded(median), rounded(took[len(took)-1]), len(took))
	if median < fastest {
		return verdict{warned, seen + ": faster than disks answer, so it may do nothing", ""}
	}
	return verdict{passed, seen, ""}
}

// rounded is a time to three digits or so.
func rounded(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}

// empty removes what is in the directory, the lock apart.
func (p *volumeProbe) empty() error {
	entries, err := p.fs.List(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name == probeLock {
			continue
		}
		if err := p.fs.Remove(p.path(e.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// remove removes the directory and all in it. Another doctor that comes meanwhile makes it anew.
func (p *volumeProbe) remove() error {
	if !p.made {
		return nil
	}
	err := p.empty()
	if rerr := p.fs.Remove(p.path(probeLock)); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	if p.lock != nil {
		err = errors.Join(err, p.lock.Close())
	}
	if rerr := p.fs.Remove(p.dir); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}
