package wal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// progressEvery is how often a long recovery says how far it is.
const progressEvery = 5 * time.Second

// maxPartial bounds what recovery reads as one segment. It holds one window of it at a time, so the bound is
// against absurd files only.
const maxPartial = 1 << 40

// stranded is an open segment that recovery could not move yet.
type stranded struct {
	lane segment.Lane
	name string
}

// recovered is what a recovery did.
type recovered struct {
	lanes, segments, torn, empty, poisoned, left int
	rows, tailBytes                              int64
	peers                                        int64 // lanes in which another process is at work
}

func (r *recovered) fields() []zap.Field {
	return []zap.Field{
		zap.Int("lanes", r.lanes), zap.Int("segments", r.segments), zap.Int64("rows", r.rows),
		zap.Int("torn", r.torn), zap.Int64("tail_bytes", r.tailBytes), zap.Int("empty", r.empty),
		zap.Int("poisoned", r.poisoned), zap.Int("left", r.left),
	}
}

// recoverAll brings every open segment of every lane to sealed/, so that it is drained without waiting for
// traffic. It reads open segments only, one window of one at a time, whatever the size of the log.
func (l *Log) recoverAll(ctx context.Context) error {
	lanes, strangers, err := l.root.Lanes()
	if err != nil {
		return err
	}
	if len(strangers) > 0 {
		l.opt.Logger.Warn("ignored: no part of a WAL root", zap.String("dir", l.opt.Dir), zap.Strings("names", strangers))
	}
	var sum recovered
	start, said := time.Now(), time.Now()
	for _, ln := range lanes {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("recover: %w", err)
		}
		if err := l.recoverLane(ctx, ln, &sum); err != nil {
			return fmt.Errorf("recover %s: %w", ln.Key(), err)
		}
		if err := l.ready(ln); err != nil {
			return fmt.Errorf("recover %s: %w", ln.Key(), err)
		}
		sum.lanes++
		said = l.progress(said, &sum, len(lanes))
	}
	if err := l.sweepLeases(); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	l.peers.Store(sum.peers)
	if sum.segments+sum.empty+sum.poisoned+sum.left > 0 {
		l.opt.Logger.Info("recovered", append(sum.fields(), zap.Duration("took", time.Since(start)))...)
	}
	return nil
}

// progress says from time to time how far a recovery is.
func (l *Log) progress(said time.Time, sum *recovered, lanes int) time.Time {
	if time.Since(said) < progressEvery {
		return said
	}
	l.opt.Logger.Info("recovering", append(sum.fields(), zap.Int("of_lanes", lanes))...)
	return time.Now()
}

// recoverStranded tries again what recovery had to leave.
func (l *Log) recoverStranded(ctx context.Context) {
	var still []stranded
	for _, s := range l.stranded {
		var sum recovered
		err := l.recoverPartial(s.lane, s.name, &sum)
		if err != nil {
			l.met.unrecovered.Add(ctx, 1)
			still = append(still, s)
			continue
		}
		l.opt.Logger.Info("recovered late", append(sum.fields(), zap.String("segment", s.name))...)
	}
	l.stranded = still
}

// recoverPartial decides about one open segment of a dead writer: sealed/, poison/, or removed. Durable when it
// returns nil. Idempotent: a crash at any point leaves a file that the next call treats alike.
func (l *Log) recoverPartial(ln segment.Lane, name string, sum *recovered) (err error) {
	path := ln.Path(segment.Active, name)
	f, err := l.fs.OpenRW(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody was first
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := l.fs.SyncDir(ln.Dir(segment.Active)); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	found, err := frame.Inspect(f, info.Size, frame.DecodeOptions{Open: true, MaxBody: maxPartial})
	var damage *frame.CorruptError
	switch {
	case err == nil:
	case errors.Is(err, frame.ErrEmpty):
		return l.removeEmpty(ln, name, sum)
	case errors.Is(err, frame.ErrVersion):
		return err
	case errors.As(err, &damage) && errors.Is(err, frame.ErrCut) && found.Header.Partial && !found.BadHeader:
		// Nobody was told of rows in it: a kill came before the answer. Under auto a power loss may have cut rows that
		// were acknowledged, as it may any end of an open segment.
		l.torn(ln, name, 0, damage.Offset, info.Size-damage.Offset, "no batch is whole, and the file is removed", sum)
		return l.removeEmpty(ln, name, sum)
	case errors.As(err, &damage):
		return l.recoverDamaged(ln, name, f, info.Size, found, damage, sum)
	default:
		return err
	}
	return l.expose(ln, name, f, found, info.Size-found.TailDropped, sum)
}

// expose moves a segment that reads well up to offset end to sealed/.
func (l *Log) expose(ln segment.Lane, name string, f vfs.File, found frame.Summary, end int64, sum *recovered) error {
	if found.BadHeader {
		found.Header.Table = uuid.Nil // one that nobody vouches for would send the rows away
		l.opt.Logger.Warn("the header of an open segment is damaged and is written anew, without a table",
			zap.String("segment", name), zap.String("dir", ln.Key()), zap.Int64("rows", found.Rows))
	}
	if found.BadHeader || found.Framed && !found.Header.Partial && !found.Sealed {
		// The crash kept the final header and lost the tail, or the header rots. Under active/ that is read as a
		// partial; in sealed/ it would be damage. So the header says again what the file is.
		if _, err := f.WriteAt(found.Header.Reopened(), 0); err != nil {
			return err
		}
	}
	if err := secure(f, found.Synced, end); err != nil {
		return err
	}
	id, _, err := segment.ParseName(name)
	if err != nil {
		return err
	}
	pin := l.pin(ln, name)
	if moved, err := ln.Seal(name); err != nil || !moved {
		return err
	}
	l.mirror(ln, id, pin)
	l.met.recovered.Add(context.Background(), 1)
	sum.segments++
	sum.rows += found.Rows
	if found.TailDropped > 0 {
		l.torn(ln, name, found.Rows, end, found.TailDropped, "its whole batches are kept", sum)
	}
	return nil
}

// torn counts and tells what the last write of a dead writer left behind offset, and what became of the segment.
func (l *Log) torn(ln segment.Lane, name string, rows, offset, bytes int64, became string, sum *recovered) {
	ctx := context.Background()
	l.met.tails.Add(ctx, 1)
	l.met.tailBytes.Add(ctx, bytes)
	sum.torn++
	sum.tailBytes += bytes
	l.opt.Logger.Warn("torn tail: the last write of a dead writer was not finished; "+became,
		zap.String("segment", name), zap.String("dir", ln.Key()), zap.Int64("rows", rows),
		zap.Int64("offset", offset), zap.Int64("dropped_bytes", bytes))
}

// secure makes the bytes of a dead writer's file up to end durable before anybody sees them; those up to synced are,
// but for the header, which a seal wrote after them. A power loss would take back what was shown. A sync alone does
// not do: the dead one may have seen a sync refused, and then the kernel has given the pages up, reads still show
// them, and the next sync succeeds without writing them. So they are written again, in place, which no full disk
// refuses.
func secure(f vfs.File, synced, end int64) error {
	body := min(max(synced, frame.HeaderSize), end)
	err := rewrite(f, 0, min(frame.HeaderSize, end))
	if err == nil {
		err = rewrite(f, body, end)
	}
	if err != nil {
		return err
	}
	return f.Sync()
}

// rewrite writes bytes [off, end) of a file over themselves.
func rewrite(f vfs.File, off, end int64) error {
	buf := make([]byte, min(renewChunk, end-off))
	for off < end {
		b := buf[:min(int64(len(buf)), end-off)]
		if _, err := f.ReadAt(b, off); err != nil {
			return err
		}
		if _, err := f.WriteAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

// removeEmpty removes a segment in which no row ever was.
func (l *Log) removeEmpty(ln segment.Lane, name string, sum *recovered) error {
	if err := markVoid(ln, name); err != nil {
		return err
	}
	if err := l.fs.Remove(ln.Path(segment.Active, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.fs.SyncDir(ln.Dir(segment.Active)); err != nil {
		return err
	}
	l.met.empties.Add(context.Background(), 1)
	sum.empty++
	return nil
}

// recoverDamaged treats a segment that has bytes which are no torn tail. What a power loss left of several
// unsynced batches looks like this, and so does a flipped bit. The whole batches before the damage become the
// segment; the damage and all behind it are set aside in poison/ under a name of their own, because whole
// batches may stand there. Without a batch before it all of the file is set aside.
func (l *Log) recoverDamaged(
	ln segment.Lane, name string, f vfs.File, size int64, found frame.Summary, damage *frame.CorruptError, sum *recovered,
) error {
	if found.Batches == 0 {
		return l.poison(ln, name, fmt.Sprintf("open segment without a whole batch: %v", damage), sum)
	}
	writer, lease, err := l.newWriter()
	if err != nil {
		return err
	}
	defer l.endLease(writer, lease)
	rest := segment.NewNamer(writer).Next(l.opt.Now()).PartialName()
	if err := copyRange(l.fs, ln.Path(segment.Active, rest), f, damage.Offset, size); err != nil {
		return err
	}
	reason := fmt.Sprintf("bytes %d to %d of %s, behind its last whole batch: %v", damage.Offset, size, name, damage)
	if err := l.poison(ln, rest, reason, sum); err != nil {
		return err
	}
	if err := f.Truncate(damage.Offset); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	found.TailDropped, found.Sealed = size-damage.Offset, false
	return l.expose(ln, name, f, found, damage.Offset, sum)
}

// copyRange writes bytes [from, to) of src into a new file, synced. Its name becomes durable with the move that
// follows.
func copyRange(fsys vfs.FS, path string, src vfs.File, from, to int64) error {
	dst, err := fsys.Create(path)
	if err != nil {
		return err
	}
	buf := make([]byte, min(renewChunk, to-from))
	for off := from; err == nil && off < to; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), to-off)]
		if _, err = src.ReadAt(buf, off); err == nil {
			_, err = dst.Writev([][]byte{buf})
		}
	}
	if err == nil {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		_ = fsys.Remove(path) // best effort: the next recovery sets the piece aside
		return fmt.Errorf("set aside into %s: %w", path, err)
	}
	return nil
}

// markVoid tells whoever looks for gaps that the number of a name in active/ is accounted for.
func markVoid(ln segment.Lane, name string) error {
	id, _, err := segment.ParseName(name)
	if err != nil {
		return err
	}
	return ln.MarkVoid(id)
}

func (l *Log) poison(ln segment.Lane, name, reason string, sum *recovered) error {
	// An operator may delete it from poison/ before a drain has seen it there.
	if err := markVoid(ln, name); err != nil {
		return err
	}
	note := segment.Note{Reason: reason, Attempts: 1, Time: l.opt.Now().UTC()}
	if err := ln.Quarantine(segment.Active, name, note); err != nil {
		return err
	}
	l.met.poisoned.Add(context.Background(), 1)
	sum.poisoned++
	l.opt.Logger.Error("damaged bytes in an open segment, set aside with a note",
		zap.String("dir", ln.Dir(segment.Poison)), zap.String("segment", name), zap.String("reason", reason))
	return nil
}
