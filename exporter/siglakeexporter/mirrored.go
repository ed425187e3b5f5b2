package siglakeexporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// mirrors is what the exporter needs of the walmirror extension. Components do not import each other.
type mirrors interface {
	// Attach begins to copy the root at dir, an absolute path; nil while the extension is idle.
	Attach(dir string) (*mirror.Mirror, error)
}

// confirmer is what it needs of its mirror.
type confirmer interface {
	Confirmed(ctx context.Context, id segment.ID) error
}

// mirrors finds the extension that the configuration names; nil when it names none.
func (e *siglake[T]) mirrors(host component.Host) (mirrors, error) {
	id := e.cfg.Mirror
	if id == nil {
		return nil, nil //nolint:nilnil // none wanted, and nothing wrong
	}
	ext, ok := host.GetExtensions()[*id]
	if !ok {
		return nil, fmt.Errorf("mirror: no extension %q runs; add it to service::extensions, or remove exporters::%s::mirror", id, e.set.ID)
	}
	m, ok := ext.(mirrors)
	if !ok {
		return nil, fmt.Errorf("mirror: extension %q is no walmirror; name one in exporters::%s::mirror", id, e.set.ID)
	}
	return m, nil
}

// hasMirror returns nil when requests under mirrored can be served.
func (e *siglake[T]) hasMirror() error {
	log, err := e.current()
	if err == nil && log.mirror == nil {
		err = fmt.Errorf("%w commit: %q %s", errParameter, modeMirrored, noMirrorText)
	}
	return err
}

// segmentsOf are the segments that have the rows of requests, each once.
func segmentsOf[T any](requests []*request[T]) (ids []segment.ID) {
	for _, r := range requests {
		if r.segment != (segment.ID{}) && !slices.Contains(ids, r.segment) { // zero: no row
			ids = append(ids, r.segment)
		}
	}
	return ids
}

// awaitMirror waits until the copies of segments are confirmed. The rows are on the disk, whatever it returns.
func (e *siglake[T]) awaitMirror(ctx context.Context, m confirmer, ids []segment.ID) error {
	limit := e.cfg.Commit.MirroredTimeout
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	var err error
	for i, id := range ids {
		if err = m.Confirmed(waiting, id); err != nil {
			ids = ids[i:]
			break
		}
	}
	e.metrics.waited(ctx, time.Since(start), err)
	if err != nil {
		return &unconfirmedError{segments: ids, within: limit}
	}
	return nil
}

// unconfirmedError says that rows are on the disk and their copies are not known to be in the mirror.
type unconfirmedError struct {
	segments []segment.ID
	within   time.Duration
}

func (u *unconfirmedError) Error() string {
	names := make([]string, len(u.segments))
	for i, id := range u.segments {
		names[i] = id.String()
	}
	return fmt.Sprintf("mirrored: the copy was not confirmed within %s; the rows are stored as under wait_for, and sending them again stores them twice (segment %s)",
		u.within, strings.Join(names, ", "))
}

// errWaiters says that as many requests wait for the mirror as may.
var errWaiters = errors.New("too many requests wait for the mirror")

// places bounds who waits for the mirror to half of those who may wait at all: a mirror that is away leaves room for
// requests under the other modes.
type places struct{ taken atomic.Int64 }

func (p *places) enter(maxWaiting int64) error {
	if p.taken.Add(1) > max(1, maxWaiting/2) {
		p.taken.Add(-1)
		return errWaiters
	}
	return nil
}

func (p *places) leave() { p.taken.Add(-1) }

var _ wal.Mirror = (*mirror.Mirror)(nil)
