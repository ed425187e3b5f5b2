package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// errGone says that the segment has no name any more.
var errGone = errors.New("mirror: the segment is gone")

// errConflict says that the object of a segment is another one.
var errConflict = errors.New("mirror: another object has the segment's name")

// work brings one job to its end, or back into the queue.
func (m *Mirror) work(ctx context.Context, j *job) {
	if !j.check && m.seen.confirmed(j.id) {
		m.queue.done(j) // a sweep found the segment before its writer told of it, and it may even be retired by now
		return
	}
	if j.tries == 0 {
		m.met.waited(m.opt.Now().Sub(j.queued))
	}
	key := sealedKey(j.lane.Key(), j.id)
	err := m.upload(ctx, j, key)
	switch {
	case err == nil:
		m.store.worked()
		m.confirm(ctx, j)
		m.queue.done(j)
	case errors.Is(err, errGone):
		m.met.gone()
		m.opt.Logger.Error("segment gone before it was uploaded: the mirror has no copy of it",
			zap.String("segment", j.id.String()), zap.String("dir", j.lane.Key()))
		m.forgetActive(j.id) // its copy stays: it may be all that is left
		m.queue.done(j)
	case errors.Is(err, errConflict):
		m.met.conflict()
		m.opt.Logger.Error("the mirror holds another object under the segment's name; nothing is overwritten, and the pin stays",
			zap.String("key", key), zap.Error(err))
		m.forgetActive(j.id)
		m.queue.done(j)
	case ctx.Err() != nil:
		m.queue.again(j) // the process ends; the pin remembers
	default:
		m.met.uploaded(false)
		m.store.failed(key, err)
		m.queue.again(j)
	}
	if m.missed.Load() && m.queue.len() < maxQueued/2 {
		m.sweepSoon()
	}
}

// upload has the object of a segment be there, whole. nil: confirmed, size and checksum.
//
//	errors  errGone, errConflict; else try again
func (m *Mirror) upload(ctx context.Context, j *job, key string) (err error) {
	f, err := j.lane.OpenAny(j.id)
	if errors.Is(err, fs.ErrNotExist) {
		return errGone
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read %s: %w", j.id, err)
	}
	if j.damaged, err = damaged(f, info.Size); err != nil {
		return err
	}
	body := objstore.NewContent(f, info.Size)
	if j.check || j.tries > 0 {
		there, err := m.there(ctx, key, body)
		if there || err != nil {
			return err
		}
		if !j.pinned {
			m.repin(j)
		}
	}
	if err := m.beMarked(ctx); err != nil {
		m.met.failed(reasonUpload)
		return err
	}
	start := m.opt.Now()
	perr := m.put(ctx, key, body)
	if perr != nil && !errors.Is(perr, objstore.ErrExists) {
		m.met.failed(reasonUpload)
	}
	// Whatever the answer was: only the object itself says what became of it.
	there, err := m.there(ctx, key, body)
	switch {
	case err != nil:
		return errors.Join(perr, err)
	case !there:
		return errors.Join(perr, fmt.Errorf("%w after its upload: %s", objstore.ErrNotFound, key))
	case perr == nil:
		m.met.sent(body.Size(), m.opt.Now().Sub(start))
	case !errors.Is(perr, objstore.ErrExists):
		m.met.presentAfterError()
	}
	if j.check {
		m.met.swept()
	}
	return nil
}

// damaged tells whether what the disk returns is no whole segment any more.
func damaged(f vfs.File, size int64) (bool, error) {
	_, err := frame.Inspect(f, size, frame.DecodeOptions{})
	if _, is := errors.AsType[*frame.CorruptError](err); is {
		return true, nil
	}
	if errors.Is(err, frame.ErrEmpty) || errors.Is(err, frame.ErrNoBatch) || errors.Is(err, frame.ErrTooBig) || errors.Is(err, frame.ErrVersion) {
		err = nil // the reader's to judge
	}
	return false, err
}

// put is one attempt.
func (m *Mirror) put(ctx context.Context, key string, body *objstore.Content) error {
	ctx, cancel := context.WithTimeout(ctx, m.limit(body.Size()))
	defer cancel()
	return m.opt.Store.Put(ctx, key, body)
}

// limit is how long one attempt may take.
func (m *Mirror) limit(size int64) time.Duration {
	return timeFor(m.opt.AttemptTimeout, size)
}

// timeFor is an attempt's time with what the size of its object adds.
func timeFor(attempt time.Duration, size int64) time.Duration {
	return attempt + time.Duration(size>>20)*time.Second
}

// there tells whether the object is there and is the segment; errConflict when it is another.
func (m *Mirror) there(ctx context.Context, key string, body *objstore.Content) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, m.limit(body.Size())) // its own: the upload's may be used up
	defer cancel()
	info, err := m.opt.Store.Stat(ctx, key)
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	same := false
	if err == nil {
		same, err = objstore.Holds(ctx, m.opt.Store, info, body)
	}
	if err == nil && !same {
		same, err = m.sameSegment(ctx, info, body)
	}
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil // deleted between the two
	}
	if err != nil {
		m.met.failed(reasonStat)
		return false, err
	}
	if !same {
		return false, fmt.Errorf("%w: %d bytes there, %d here", errConflict, info.Size, body.Size())
	}
	return true, nil
}

// repin makes the pin that a segment found by a sweep may lack, now that its upload is owed.
func (m *Mirror) repin(j *job) {
	j.pinned = true // tried once
	err := j.lane.Pin(segment.Sealed, j.id.FileName())
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // gone on: a drain has it
		m.notPinned(j.lane, j.id, err)
	}
}

// confirm ends what was owed: whoever waits is told, the pin goes, and the copy of the open segment with it. Nobody is told of a
// damaged one: its object has what can be saved of it, as poison/ will, and is no copy of what was written.
func (m *Mirror) confirm(ctx context.Context, j *job) {
	m.met.uploaded(true)
	if j.damaged {
		m.met.failed(reasonDamaged)
		m.opt.Logger.Error("segment damaged on the disk before its upload; the object is what the disk returns, and no request is answered for it",
			zap.String("segment", j.id.String()), zap.String("dir", j.lane.Key()))
		m.unpin(j)
		return
	}
	m.seen.confirm(j.id)
	m.unpin(j)
	if err := m.dropActive(ctx, j.lane, j.id); err != nil {
		m.opt.Logger.Warn("copy of an open segment not deleted, the next sweep does it",
			zap.String("segment", j.id.String()), zap.Error(err))
	}
}
