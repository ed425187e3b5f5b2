package wal

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// errTaken: what is read back is not what was written. The kernel dropped pages that it could not write.
var errTaken = errors.New("read back other bytes than were written")

// renewChunk is the copy buffer. Renewing is rare and one lane at a time holds such a buffer.
const renewChunk = 256 << 10

// renew puts the good prefix of a damaged segment into a fresh file under the same name: copied, verified
// against the running CRC, synced, renamed over the old one. After it the segment is as good as new, at its
// good offset or, where the failed sync took what was written after the last good one, at that.
//
// A crash leaves the old file or the new under the name, both with every row promised under WaitFor, and
// perhaps the temporary file, which the next Open removes. Safe to call again.
func (ln *lane) renew(s *openSegment) error {
	to := s.at
	err := ln.copyOver(s, to)
	if errors.Is(err, errTaken) && s.synced.rows > 0 && s.synced.off < to.off {
		to = s.synced
		err = ln.copyOver(s, to)
	}
	if err != nil {
		return fmt.Errorf("copy the good part of %s: %w", s.path, err)
	}
	if lost := s.at.rows - to.rows; lost > 0 {
		ln.log.met.rowsLost.Add(context.Background(), lost)
		ln.log.opt.Logger.Error("a failed fsync took rows acknowledged under auto",
			zap.String("segment", s.id.String()), zap.Int64("rows", lost), zap.Int64("bytes", s.at.off-to.off))
		s.at = to
	}
	if err := ln.log.fs.SyncDir(ln.seg.Dir(segment.Active)); err != nil {
		return fmt.Errorf("sync the name of the fresh %s: %w", s.path, err) // still damaged: copied once more
	}
	s.damaged, s.named, s.synced = false, true, to
	return nil
}

// copyOver makes the fresh file, synced, and gives it the name. Until the directory is synced the name may lead
// to either.
func (ln *lane) copyOver(s *openSegment, to mark) error {
	fsys, temp := ln.log.fs, s.path+tempSuffix
	if err := fsys.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	if err = copyGood(f, s, to); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = fsys.Rename(temp, s.path)
	}
	if err != nil {
		_ = f.Close()
		_ = fsys.Remove(temp) // best effort: the next try or the next Open removes it
		return err
	}
	_ = s.file.Close() // damaged: its verdict is known
	s.file, s.ended, s.headed, s.final = f, false, false, false
	return nil
}

func copyGood(dst vfs.File, s *openSegment, to mark) error {
	head := frame.Header{Partial: true, Table: s.table}.Encode()
	if _, err := dst.Writev([][]byte{head[:]}); err != nil {
		return err
	}
	buf := make([]byte, min(renewChunk, to.off))
	crc := uint32(0)
	for off := int64(frame.HeaderSize); off < to.off; {
		b := buf[:min(int64(len(buf)), to.off-off)]
		if _, err := s.file.ReadAt(b, off); err != nil {
			return err
		}
		crc = crc32.Update(crc, crc32.IEEETable, b)
		if _, err := dst.Writev([][]byte{b}); err != nil {
			return err
		}
		off += int64(len(b))
	}
	if crc != to.crc {
		return errTaken
	}
	return nil
}
