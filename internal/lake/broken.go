package lake

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/iceberg-go/table"
)

// What a metadata file that the catalog shows may be.
const (
	Gone    = "gone"
	Damaged = "damaged"
)

// compareBroken finds out why the table could not be opened. Where the catalog answers, and the metadata file that it names is gone
// or damaged, that is how the table stands: a table keeps the last few, and this one is older, or the warehouse has lost it.
//
//	errors  anything else, cause among them: then nothing is known
func (p *Past) compareBroken(ctx context.Context, cause error) error {
	if errors.Is(cause, ErrCatalogGone) || p.lake.db == nil && !errors.Is(cause, ErrMetadataGone) {
		return cause
	}
	at, err := p.lake.pointer(ctx, p.id)
	if err != nil {
		return errors.Join(cause, err)
	}
	_, err = p.lake.stored(ctx, p.id, at)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isAbsent(err):
		p.Broken = Gone
	case isGarbled(err) && readable(p.lake, at):
		p.Broken = Damaged
	default: // also where the file is there by now
		return cause
	}
	p.Standing, p.Have = WentBack, State{Metadata: at}
	return nil
}

// isGarbled tells what is cut off or no JSON from what another version may have written, and from an answer that broke off: those are
// nothing to go back from.
func isGarbled(err error) bool {
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return true
	}
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum)
}

// mayGoBack tells whether a state before what the catalog shows is better than none. Only a log that committed to the table tells
// then that something may be missing.
func (p *Past) mayGoBack() bool { return p.Broken != "" && p.Seen.Metadata != "" }

// precedes tells whether a state is one that the catalog may go back to.
func (p *Past) precedes(tbl *table.Table) bool {
	v, ok := metadataVersion(tbl.MetadataLocation())
	return p.mayGoBack() && ok && v < versionNumber(p.Have.Metadata)
}

// orRepair adds to the error of a metadata file that is damaged what helps without a copy of it.
func orRepair(err error) error {
	if !isGarbled(err) {
		return err
	}
	return fmt.Errorf("%w; where there is none, siglake catalog-repair sets the table to another state", err)
}
