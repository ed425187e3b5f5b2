package wal

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// open gives the lane its next segment: the spare, or one made now. It waits for the sealer when that is far
// behind, and refuses when it is far behind because the disk refuses to seal.
func (ln *lane) open(schema *schemaMessage) error {
	if err := ln.awaitSealer(); err != nil {
		return err
	}
	if !ln.prepared {
		if err := ln.seg.Prepare(); err != nil {
			return fmt.Errorf("prepare %s: %w", ln.seg.Key(), err)
		}
		ln.prepared = true
	}
	if err := ln.hire(); err != nil {
		return err
	}
	table := ln.readOwner()
	if len(ln.voided) > 0 {
		ln.dropSpare() // a lower number is to be used first
	}
	s := ln.takeSpare()
	if s != nil && (s.table != table || !s.schema.same(schema)) {
		ln.discard(s)
		s = nil
	}
	if s == nil {
		made := ln.create(ln.nextID(), schema, table)
		if made.err != nil {
			ln.reuse(made)
			return made.err
		}
		s = made.s
	}
	s.opened = ln.log.opt.Now()
	s.due = s.opened.Add(ln.log.opt.MaxAge)
	ln.cur = s
	if ln.hot {
		ln.preopen(s)
	}
	return nil
}

// awaitSealer holds the lane back while maxUnsealed segments wait to be sealed.
func (ln *lane) awaitSealer() error {
	for {
		ln.mu.Lock()
		behind, err := len(ln.unsealed), ln.sealErr
		ln.mu.Unlock()
		if behind < maxUnsealed {
			return nil
		}
		if err != nil {
			return fmt.Errorf("append to %s: %d segments wait to be sealed: %w", ln.seg.Key(), behind, err)
		}
		<-ln.wake // the sealer signals after each segment
	}
}

// nextID returns the lowest number that was taken for nothing, or a new one.
func (ln *lane) nextID() segment.ID {
	if len(ln.voided) == 0 {
		return ln.namer.Next(ln.log.opt.Now())
	}
	low := slices.MinFunc(ln.voided, func(a, b segment.ID) int { return cmp.Compare(a.Seq, b.Seq) })
	ln.voided = slices.DeleteFunc(ln.voided, func(id segment.ID) bool { return id == low })
	return low
}

// spare is a segment made ahead of its time, or why there is none.
type spare struct {
	s    *openSegment
	id   segment.ID
	free bool // no file is left: the number may be given to another
	err  error
}

// preopen makes the segment after like in the background, with its name synced, so that the answer which opens
// it waits for one sync and not for two. Only a lane that has filled a segment under WaitFor has one.
func (ln *lane) preopen(like *openSegment) {
	if ln.spare != nil {
		return
	}
	c := make(chan spare, 1)
	ln.spare = c
	id := ln.nextID()
	ln.log.work.Go(func() {
		made := ln.create(id, like.schema, like.table)
		if made.err == nil && ln.log.fs.SyncDir(ln.seg.Dir(segment.Active)) == nil {
			made.s.named = true // else the first sync of the segment meets the trouble
		}
		c <- made
	})
}

// takeSpare returns the spare when there is one, waiting while it is being made: its number comes next.
func (ln *lane) takeSpare() *openSegment {
	if ln.spare == nil {
		return nil
	}
	made := <-ln.spare
	ln.spare = nil
	if made.err != nil {
		ln.reuse(made)
		return nil
	}
	return made.s
}

// dropSpare removes a spare that nobody came for.
func (ln *lane) dropSpare() {
	if s := ln.takeSpare(); s != nil {
		ln.discard(s)
	}
}

// reuse keeps the lane's numbers without a gap when making a segment failed.
func (ln *lane) reuse(made spare) {
	if made.free {
		ln.voided = append(ln.voided, made.id)
	} else {
		ln.skip(made.id)
	}
}

// skip gives up a number whose file could not be removed. The next start removes it and marks the number; this
// mark is for a file whose name the power takes before, or that is gone in spite of the error.
func (ln *lane) skip(id segment.ID) {
	if err := ln.seg.MarkVoid(id); err != nil {
		ln.log.opt.Logger.Warn("number not marked void, the next start does it",
			zap.String("segment", id.String()), zap.Error(err))
	}
}

// create makes a segment file and writes header and schema. Nothing is synced.
func (ln *lane) create(id segment.ID, schema *schemaMessage, table uuid.UUID) spare {
	s := &openSegment{
		id: id, lease: ln.lease, path: ln.seg.Path(segment.Active, id.PartialName()), schema: schema, table: table,
		opened: ln.log.opt.Now(),
	}
	var err error
	if s.file, err = ln.log.fs.Create(s.path); err != nil {
		return spare{id: id, free: !errors.Is(err, fs.ErrExist), err: fmt.Errorf("create %s: %w", s.path, err)}
	}
	info, err := s.file.Stat()
	if err != nil {
		return spare{id: id, free: ln.unlink(s), err: fmt.Errorf("create %s: %w", s.path, err)}
	}
	s.inode = info.Inode
	head := frame.Header{Partial: true, Table: s.table}.Encode()
	msg, err := schema.named(id)
	if err == nil {
		_, err = s.file.Writev([][]byte{head[:], msg})
	}
	if err != nil {
		return spare{id: id, free: ln.unlink(s), err: fmt.Errorf("create %s: %w", s.path, err)}
	}
	s.at = mark{off: int64(len(head) + len(msg)), crc: crc32.ChecksumIEEE(msg)}
	ln.log.space.written.Add(s.at.off)
	return spare{s: s, id: id}
}

// discard removes a segment without an acknowledged row and takes its number back.
func (ln *lane) discard(s *openSegment) {
	if ln.unlink(s) {
		ln.voided = append(ln.voided, s.id)
		ln.log.space.written.Add(-s.at.off)
	} else {
		ln.skip(s.id)
	}
}

func (ln *lane) unlink(s *openSegment) bool {
	_ = s.file.Close() // nothing in it counts
	if err := ln.log.fs.Remove(s.path); err != nil {
		ln.log.opt.Logger.Warn("segment without rows not removed, the next start does it",
			zap.String("segment", s.id.String()), zap.Error(err))
		return false
	}
	return true
}

// readOwner returns the table that the drain has named as owner. An unreadable file changes nothing: the rows
// keep the opinion the lane had, and the drain decides.
func (ln *lane) readOwner() uuid.UUID {
	table, err := ln.seg.Owner()
	if err != nil {
		ln.log.opt.Logger.Warn("owner file not readable, segments keep the table last read",
			zap.String("dir", ln.seg.Key()), zap.Error(err))
		return ln.owner
	}
	ln.owner = table
	return table
}
