package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go/catalog"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// AllowedSkew is how far the clock may be behind the table's last commit: iceberg-go refuses a snapshot that is a
// minute older than its predecessor.
const AllowedSkew = 55 * time.Second

// state is a table as the catalog shows it.
type state struct {
	tbl   *table.Table
	proof proof
}

// open loads a table so that what it writes goes through the lake's IO and what it commits through the lake's
// catalog.
func (l *Lake) open(ctx context.Context, id table.Identifier) (*table.Table, error) {
	if err := l.stillThere(); err != nil {
		return nil, err
	}
	t, err := l.cat.LoadTable(ctx, id)
	if errors.Is(err, catalog.ErrNoSuchTable) || errors.Is(err, catalog.ErrNoSuchNamespace) {
		return nil, fmt.Errorf("%w: %s", ErrNoTable, strings.Join(id, "."))
	}
	if err != nil {
		return nil, loadError(id, err)
	}
	at := func(context.Context) (iceio.IO, error) { return l.io, nil }
	return table.New(t.Identifier(), t.Metadata(), t.MetadataLocation(), at, l.cat), nil
}

// loadError says what was loaded, and tells a metadata file that is gone from a catalog that is.
func loadError(id table.Identifier, err error) error {
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCatalogGone) {
		err = fmt.Errorf("%w: %w", ErrMetadataGone, err)
	}
	return fmt.Errorf("load table %s: %w", strings.Join(id, "."), err)
}

// load opens the table, and checks that it is this incarnation, that it did not go back, and that its proof is
// whole. A state it returns was seen: an older one will be refused from now on.
func (t *Table) load(ctx context.Context) (state, error) {
	// Asked before the catalog is: a commit of this process may land in between, and is no step back.
	t.mu.Lock()
	before, expected := t.head, t.expected
	t.mu.Unlock()
	tbl, err := t.lake.open(ctx, t.id)
	if err != nil {
		return state{}, err
	}
	meta := tbl.Metadata()
	if have := meta.TableUUID(); have != t.uuid {
		return state{}, &IncarnationError{Table: t.Name(), Want: t.uuid, Have: have}
	}
	// What was expected is asked for, too: others may have committed so much to a restored catalog that it looks newer.
	for _, seen := range []head{before, expected} {
		if err := t.checkHead(ctx, tbl, seen); err != nil {
			return state{}, err
		}
	}
	p, err := readProof(meta, t.lake.now())
	if err != nil {
		return state{}, fmt.Errorf("property %s of %s: %w", propProof, t.Name(), err)
	}
	t.follow(headOf(tbl))
	return state{tbl: tbl, proof: p}, nil
}

// readProof reads the proof of a table. A table with snapshots and without a proof of its own was written by
// others, or before there was a proof: the list starts now, and older segments must be looked up.
func readProof(meta table.Metadata, now time.Time) (proof, error) {
	none := proof{table: meta.TableUUID()}
	if meta.CurrentSnapshot() != nil {
		none.coverage = now.UnixMilli()
	}
	text, ok := meta.Properties()[propProof]
	if !ok {
		return none, nil
	}
	p, err := decodeProof(text)
	if err != nil {
		return proof{}, err
	}
	if p.table != meta.TableUUID() {
		// Properties get copied along with a table; the rows they speak of do not.
		return none, nil
	}
	return p, nil
}

// checkHead compares the table with a state that was seen of it before it was loaded.
//
//	errors  *GoneBackError; another: the state that was seen could not be read, so nothing is known
func (t *Table) checkHead(ctx context.Context, tbl *table.Table, seen head) error {
	have := headOf(tbl)
	same := have.metadata == seen.metadata // a file is written once, so it has to have the same content, too
	if seen.metadata == "" || same && have.sequence >= seen.sequence {
		return nil
	}
	back := have.sequence < seen.sequence || forked(tbl, seen.metadata)
	if !back && !namesMetadata(tbl, seen.metadata) {
		var err error
		if back, err = t.outgrown(ctx, tbl, seen); err != nil {
			return fmt.Errorf("read the state of %s that was seen before: %w", t.Name(), err)
		}
	}
	if !back {
		return nil
	}
	return &GoneBackError{
		Table: t.Name(), WantSequence: seen.sequence, HaveSequence: have.sequence,
		WantMetadata: seen.metadata, HaveMetadata: have.metadata,
	}
}

// forked tells whether the table's history cannot contain the metadata file seen before: another file has its
// version number, or the table has not got that far.
func forked(tbl *table.Table, seen string) bool {
	want, ok := metadataVersion(seen)
	if !ok {
		return false
	}
	if have, ok := metadataVersion(tbl.MetadataLocation()); ok && have <= want {
		return true
	}
	for e := range tbl.Metadata().PreviousFiles() {
		if v, ok := metadataVersion(e.MetadataFile); ok && v == want && e.MetadataFile != seen {
			return true
		}
	}
	return false
}

// metadataVersion reads the number that names of metadata files begin with.
func metadataVersion(location string) (int, bool) {
	number, _, _ := strings.Cut(path.Base(location), "-")
	v, err := strconv.Atoi(number)
	return v, err == nil
}

// checkClock refuses to write with a clock that iceberg-go would refuse later, and says what to do. It reads the
// system clock and not Options.Now: that is what iceberg-go stamps snapshots with.
func checkClock(name string, meta table.Metadata) error {
	last := time.UnixMilli(meta.LastUpdatedMillis())
	if behind := time.Until(last); behind > AllowedSkew {
		return fmt.Errorf("%w %s: its last commit was at %s, in %s by the clock of this machine; set the clock",
			ErrClock, name, last.UTC().Format(time.RFC3339), behind.Round(time.Second))
	}
	return nil
}
