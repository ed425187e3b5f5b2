package siglakeexporter

import (
	"context"
	"fmt"

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

var _ wal.Mirror = (*mirror.Mirror)(nil)
