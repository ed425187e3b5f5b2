package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// uploadActives uploads the beginning of each open segment that has grown since the last time.
func (m *Mirror) uploadActives(ctx context.Context, root *segment.Root) {
	lanes, _, err := root.Lanes()
	if err != nil {
		m.met.failed(reasonActiveRead)
		m.opt.Logger.Warn("open segments not listed, will be tried again", zap.Error(err))
	}
	for _, lane := range lanes {
		entries, _, err := lane.List(segment.Active)
		if err != nil {
			m.met.failed(reasonActiveRead)
			continue
		}
		for _, e := range entries {
			if ctx.Err() != nil {
				return
			}
			if err := m.uploadActive(ctx, lane, e); err != nil && ctx.Err() == nil {
				m.opt.Logger.Warn("beginning of an open segment not uploaded, will be tried again",
					zap.String("segment", e.ID.String()), zap.Error(err))
			}
		}
	}
}

// uploadActive uploads the whole messages of an open segment behind a PARTIAL header of their own. The file goes on
// growing meanwhile, and its header may be replaced: neither is read again.
func (m *Mirror) uploadActive(ctx context.Context, lane segment.Lane, e segment.Entry) (err error) {
	f, err := m.opt.FS.Open(lane.Path(segment.Active, e.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // sealed meanwhile
	}
	if err != nil {
		m.met.failed(reasonActiveRead)
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	head, end, err := beginning(f)
	if err != nil {
		m.met.failed(reasonActiveRead)
		return err
	}
	m.activeMu.Lock()
	unchanged := end <= m.actives[e.ID]
	m.activeMu.Unlock()
	if unchanged {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.opt.AttemptTimeout)
	defer cancel()
	body := objstore.NewContent(&spliced{head: head, file: f}, end)
	if _, err := body.CRC32(); err != nil {
		m.met.failed(reasonActiveRead)
		return err
	}
	err = m.beMarked(ctx)
	if err == nil {
		err = m.opt.Store.Replace(ctx, activeKey(lane.Key(), e.ID), body)
	}
	if err != nil {
		m.met.failed(reasonActiveUpload)
		return err
	}
	m.met.activeSent(end)
	m.activeMu.Lock()
	m.actives[e.ID] = end
	m.activeMu.Unlock()
	if m.seen.confirmed(e.ID) { // sealed and uploaded while this was on its way
		return m.dropActive(ctx, lane, e.ID)
	}
	return nil
}

// beginning returns a PARTIAL header for an open segment and where its last whole message ends; 0 without one.
func beginning(f vfs.File) (head []byte, end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	sum, err := frame.Inspect(f, info.Size, frame.DecodeOptions{Open: true})
	if errors.Is(err, frame.ErrEmpty) || errors.Is(err, frame.ErrNoBatch) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	h := frame.Header{Partial: true, Table: sum.Header.Table}.Encode()
	return h[:], info.Size - sum.TailDropped, nil
}

// spliced is a file with other bytes at its start.
type spliced struct {
	head []byte
	file io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (s *spliced) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.file.ReadAt(p, off)
	if off < int64(len(s.head)) {
		copy(p[:n], s.head[off:])
	}
	return n, err
}

// dropActive deletes the copy of an open segment, if there is one, once the sealed one is confirmed. Confirmed comes before
// it, here and with a copy under way: of the two that may meet, the later one finds the copy.
func (m *Mirror) dropActive(ctx context.Context, lane segment.Lane, id segment.ID) error {
	if !m.forgetActive(id) {
		return nil
	}
	return m.deleteActive(ctx, lane.Key(), id)
}

// forgetActive forgets what was uploaded of an open segment, and tells whether anything was.
func (m *Mirror) forgetActive(id segment.ID) bool {
	m.activeMu.Lock()
	defer m.activeMu.Unlock()
	_, uploaded := m.actives[id]
	delete(m.actives, id)
	return uploaded
}

func (m *Mirror) deleteActive(ctx context.Context, lane string, id segment.ID) error {
	ctx, cancel := context.WithTimeout(ctx, m.opt.AttemptTimeout)
	defer cancel()
	err := m.opt.Store.Delete(ctx, activeKey(lane, id))
	if err != nil {
		m.met.failed(reasonActiveDelete)
	}
	return err
}

// sweepActives deletes each copy of an open segment whose sealed object is there, whoever made it. The others stay:
// they may be all that is left of a volume.
func (m *Mirror) sweepActives(ctx context.Context) error {
	var there []object
	err := m.opt.Store.List(ctx, activePrefix, func(info objstore.Info) error {
		if o, ok := parseKey(info.Key); ok {
			there = append(there, o)
		}
		return nil
	})
	errs := []error{err}
	for _, o := range there {
		_, err := m.opt.Store.Stat(ctx, sealedKey(o.lane(), o.id))
		if err == nil {
			err = m.deleteActive(ctx, o.lane(), o.id)
		}
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			errs = append(errs, fmt.Errorf("clean %s: %w", activePrefix, err))
		}
	}
	return errors.Join(errs...)
}
