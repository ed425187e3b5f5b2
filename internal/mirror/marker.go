package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// maxMarker bounds what is read as siglake-mirror.json.
const maxMarker = 1 << 20

// beMarked has the marker be there. Nothing is uploaded before: recovery takes objects without a marker for no mirror.
func (m *Mirror) beMarked(ctx context.Context) error {
	if m.marked.Load() {
		return nil
	}
	m.markMu.Lock()
	defer m.markMu.Unlock()
	if m.marked.Load() {
		return nil
	}
	root, err := segment.Open(m.opt.FS, m.opt.Dir)
	if err != nil {
		return err
	}
	return m.mark(ctx, root.UUID())
}

// markOnly writes the marker where no sweep does.
func (m *Mirror) markOnly(ctx context.Context, root *segment.Root) {
	for tries := 1; ; tries++ {
		err := m.mark(ctx, root.UUID())
		if err == nil || !rest(ctx, backoff(tries, retryFirst, retryLongest, m.opt.Draw)) {
			return
		}
		m.met.failed(reasonSweep)
	}
}

// mark writes siglake-mirror.json, or adds this root to it. Several mirrors that do so at once may drop one another's
// entry; the next sweep puts it back.
func (m *Mirror) mark(ctx context.Context, root uuid.UUID) error {
	ctx, cancel := context.WithTimeout(ctx, m.opt.AttemptTimeout)
	defer cancel()
	have, err := readMarker(ctx, m.opt.Store)
	fresh := errors.Is(err, objstore.ErrNotFound)
	if err != nil && !fresh {
		return err
	}
	if slices.Contains(have.Roots, root) {
		m.marked.Store(true)
		return nil
	}
	b, err := json.Marshal(marker{Format: markerFormat, Roots: append(have.Roots, root)})
	if err != nil {
		return fmt.Errorf("write %s: %w", markerKey, err)
	}
	b = append(b, '\n')
	body := objstore.NewContent(bytes.NewReader(b), int64(len(b)))
	if fresh {
		err = m.opt.Store.Put(ctx, markerKey, body)
	} else {
		err = m.opt.Store.Replace(ctx, markerKey, body)
	}
	// Another mirror may have been faster; the next sweep adds this one. As with segments, only the object is believed.
	if err == nil || errors.Is(err, objstore.ErrExists) {
		_, err = readMarker(ctx, m.opt.Store)
	}
	if err == nil {
		m.marked.Store(true)
	}
	return err
}

func readMarker(ctx context.Context, s objstore.Store) (marker, error) {
	r, err := s.Get(ctx, markerKey)
	if err != nil {
		return marker{}, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxMarker))
	if err = errors.Join(err, r.Close()); err != nil {
		return marker{}, fmt.Errorf("read %s: %w", markerKey, err)
	}
	return parseMarker(b)
}
