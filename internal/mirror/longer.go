package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// sameSegment decides about an object that is not the file, byte for byte. Two roots have unlike copies of one segment after
// a recovery from the copy of an open one: the beginning in the one, the whole in the other. An object with as many rows or
// more is what was owed. One that is only the beginning is replaced: nothing that it has is lost. False: another segment.
func (m *Mirror) sameSegment(ctx context.Context, info objstore.Info, here *objstore.Content) (bool, error) {
	if info.Size > maxObject {
		return false, nil
	}
	body, err := read(ctx, m.opt.Store, info)
	if err != nil {
		return false, err
	}
	seg, err := frame.Decode(bytes.NewReader(body), info.Size, frame.DecodeOptions{})
	if err != nil {
		return false, nil //nolint:nilerr // no segment at all
	}
	seg.Release()
	rel, err := segment.Relate(here.Reader(), here.Size(), bytes.NewReader(body), info.Size)
	if err != nil || rel == segment.Unlike {
		return false, err
	}
	if rel != segment.SecondShorter {
		return true, nil
	}
	m.opt.Logger.Warn("the mirror holds only the beginning of a segment, as a recovery uploads it; it is replaced by the whole one",
		zap.String("key", info.Key), zap.Int64("bytes_there", info.Size), zap.Int64("bytes_here", here.Size()))
	if err := m.opt.Store.Replace(ctx, info.Key, here); err != nil {
		return false, err
	}
	if info, err = m.opt.Store.Stat(ctx, info.Key); err != nil {
		return false, err
	}
	return objstore.Holds(ctx, m.opt.Store, info, here)
}

// read is an object whole: as many bytes as info says.
func read(ctx context.Context, s objstore.Store, info objstore.Info) ([]byte, error) {
	in, err := s.Get(ctx, info.Key)
	if err != nil {
		return nil, err
	}
	body := make([]byte, info.Size+1) // one more than should come
	n, err := io.ReadFull(in, body)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("get %s: %w", info.Key, err)
	}
	if int64(n) != info.Size {
		return nil, fmt.Errorf("get %s: %d bytes came, the listing says %d", info.Key, n, info.Size)
	}
	return body[:n], nil
}
