package lake

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/iceberg-go/table"
)

// ErrRepoint says that a catalog has no way to make a table show another of its metadata files.
var ErrRepoint = errors.New("lake: the catalog cannot be set to a metadata file")

// Set makes the catalog show Forward, if it still shows Have.
//
//	durable  on return of nil
//	safe     to call again, also after an error: it looks first
//	errors   ErrRepoint: a REST catalog that has the table; the catalog shows another state by now; ErrReadOnly
//	ctx      ends the wait before it is sent; what was sent is awaited
func (p *Past) Set(ctx context.Context) error {
	if p.lake.readOnly {
		return ErrReadOnly
	}
	if p.Forward == nil {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.lake.limits.commitTimeout)
	defer cancel()
	sent := p.set(ctx)
	if errors.Is(sent, ErrRepoint) {
		return sent
	}
	// Whatever the answer was: what the catalog shows now counts.
	tbl, err := p.lake.open(ctx, p.id)
	if err != nil {
		return errors.Join(sent, err)
	}
	if at := tbl.MetadataLocation(); at != p.Forward.Metadata {
		return errors.Join(sent, fmt.Errorf("the catalog shows %s of %s and not %s: somebody else writes to it; stop that and run it again",
			at, p.Table, p.Forward.Metadata))
	}
	p.Have, p.have = *p.Forward, tbl
	return nil
}

func (p *Past) set(ctx context.Context) error {
	l := p.lake
	switch {
	case p.Standing == Unlisted:
		if err := l.createNamespace(ctx, p.id[:1]); err != nil {
			return err
		}
		return l.register(ctx, p.id, p.Forward.Metadata)
	case l.db == nil:
		return fmt.Errorf("%w: let its own tools drop table %s and keep the files, then run it again: it registers %s", ErrRepoint, p.Table, p.Forward.Metadata)
	}
	n, err := l.repoint(ctx, p.id, p.Have.Metadata, p.Forward.Metadata)
	if err == nil && n == 0 {
		err = fmt.Errorf("the catalog shows %s of %s no more", p.Have.Metadata, p.Table)
	}
	return err
}

// register makes a table known that is not in the catalog.
func (l *Lake) register(ctx context.Context, id table.Identifier, metadata string) error {
	if l.opened.register != nil {
		return l.opened.register(l.io.with(ctx), id, metadata)
	}
	return l.enlist(ctx, id, metadata)
}

// pointer is the metadata file that a SQL catalog names, also one that is gone.
func (l *Lake) pointer(ctx context.Context, id table.Identifier) (string, error) {
	if l.db == nil {
		return "", fmt.Errorf("%w: a REST catalog does not tell which file it has lost", ErrRepoint)
	}
	return l.metadataOf(ctx, id)
}
