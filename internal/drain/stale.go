package drain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// ErrNoSuchTable says that no table of the catalog has the UUID.
var ErrNoSuchTable = errors.New("no such table")

// tableWith finds a table by its UUID.
func tableWith(ctx context.Context, tables func(context.Context) ([]lake.TableInfo, error), id uuid.UUID) (lake.TableInfo, error) {
	infos, err := tables(ctx)
	for _, t := range infos {
		if t.UUID == id {
			return t, nil // whatever is wrong with others
		}
	}
	if err != nil {
		return lake.TableInfo{}, fmt.Errorf("look for table %s: %w", id, err)
	}
	return lake.TableInfo{}, fmt.Errorf("%w: no table of the catalog has the UUID %s", ErrNoSuchTable, id)
}

// takes tells whether the rows of a lane go to the table.
func (r requeuer) takes(l segment.Lane) bool {
	return r.table.Namespace == lake.NamespaceOf(l.Tenant()) && r.table.Name == l.Index()
}

// noteOf says why a segment was set aside.
func (r requeuer) noteOf(p aside) string {
	switch p.state {
	case segment.Poison:
		if note, err := p.lane.ReadNote(p.entry.Name); err == nil {
			return note.Reason
		}
		return "no note"
	case segment.Stale:
		return "written for table " + path.Dir(p.entry.Name)
	default:
		return "its commit was interrupted"
	}
}

// stamp moves a segment of stale/ as one of the table. What it writes is read first as the drain will read it.
func (r requeuer) stamp(p aside, f io.ReaderAt, size int64) (bool, error) {
	file := make([]byte, size)
	if _, err := f.ReadAt(file, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	file, err := frame.Stamp(file, r.Into)
	if err != nil {
		return false, err
	}
	seg, _, err := decode(bytes.NewReader(file), int64(len(file)), p.entry.ID)
	if err != nil {
		return false, fmt.Errorf("read what was stamped: %w", err)
	}
	seg.Release()
	return p.lane.RequeueStale(p.entry.Name, file, segment.Into{Table: r.Into, Time: wall(r.Now()).UTC(), By: r.Holder})
}
