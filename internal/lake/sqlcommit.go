package lake

import (
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/apache/iceberg-go/catalog"
	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
)

// rememberedTables bounds how many tables a catalog remembers: one is some hundred KB.
const rememberedTables = 128

// sqlCatalog is iceberg-go's SQL catalog, which decodes metadata.json twice for each commit. This one remembers the last
// state of each table by the place of its metadata file. Each load asks the database for that place, and what is
// remembered counts only while it is the same: a metadata file is never written again under its name.
type sqlCatalog struct {
	*sqlcat.Catalog
	pointers

	mu    *sync.Mutex
	known map[string]known // by identifier
}

// known is a state of a table.
type known struct {
	location string
	meta     table.Metadata // is never changed: who builds on it clones it
}

func newSQLCatalog(cat *sqlcat.Catalog, at pointers) sqlCatalog {
	return sqlCatalog{Catalog: cat, pointers: at, mu: &sync.Mutex{}, known: map[string]known{}}
}

// recall is what is remembered of a table, if the database has no other.
func (c sqlCatalog) recall(ctx context.Context, id table.Identifier) (known, bool) {
	c.mu.Lock()
	k, ok := c.known[strings.Join(id, "\x00")]
	c.mu.Unlock()
	if !ok || len(id) != 2 {
		return known{}, false
	}
	at, err := c.metadataOf(ctx, id)
	return k, err == nil && at == k.location // any trouble is the catalog's to tell
}

func (c sqlCatalog) remember(id table.Identifier, location string, meta table.Metadata) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := strings.Join(id, "\x00")
	if _, ok := c.known[key]; !ok && len(c.known) >= rememberedTables {
		for other := range c.known { // any of them
			delete(c.known, other)
			break
		}
	}
	c.known[key] = known{location, meta}
}

// LoadTable is the table as the database says it is now.
func (c sqlCatalog) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	if k, ok := c.recall(ctx, id); ok {
		return table.New(id, k.meta, k.location, ioOf, c), nil
	}
	t, err := c.Catalog.LoadTable(ctx, id)
	if err != nil {
		return nil, c.loadError(ctx, id, err)
	}
	c.remember(id, t.MetadataLocation(), t.Metadata())
	return t, nil
}

// loadError names the metadata file that is damaged. One that is gone is named by its error.
func (c sqlCatalog) loadError(ctx context.Context, id table.Identifier, err error) error {
	if isAbsent(err) || errors.Is(err, catalog.ErrNoSuchTable) || errors.Is(err, catalog.ErrNoSuchNamespace) {
		return err
	}
	at, perr := c.metadataOf(ctx, id)
	io, ierr := storesOf(ctx)
	if perr != nil || ierr != nil {
		return err // the catalog does not answer
	}
	return orRepair(io.fileError("the metadata file", at, err))
}

// CommitTable writes the next metadata file and makes the database point to it, if it still points to the one before.
//
//	durable  on return of nil
//	errors   table.ErrCommitFailed: the database points to another by now. A requirement that does not hold is a plain
//	         error. notAskedError: nothing was sent. After others it may have landed
func (c sqlCatalog) CommitTable(
	ctx context.Context, id table.Identifier, requires []table.Requirement, updates []table.Update,
) (table.Metadata, string, error) {
	base, ok := c.recall(ctx, id)
	version, numbered := metadataVersion(base.location)
	if !ok || !numbered {
		return c.first(ctx, id, requires, updates)
	}
	for _, r := range requires {
		if err := r.Validate(base.meta); err != nil {
			return nil, "", err
		}
	}
	meta, err := table.UpdateTableMetadata(base.meta, updates, base.location)
	if err != nil {
		return nil, "", err
	}
	if meta.Equals(base.meta) {
		return base.meta, base.location, nil
	}
	name := strings.Join(id, ".")
	places, err := table.LoadLocationProvider(meta.Location(), meta.Properties())
	if err != nil {
		return nil, "", fmt.Errorf("find a place for the metadata of %s: %w", name, err)
	}
	location, err := places.NewTableMetadataFileLocation(version + 1)
	if err != nil {
		return nil, "", fmt.Errorf("find a place for the metadata of %s: %w", name, err)
	}
	if err := writeMetadata(ctx, location, meta); err != nil {
		if at, serr := storesOf(ctx); serr == nil {
			_ = at.Remove(location) // nobody knows of it, and it may be what fills the disk
		}
		return nil, "", notAskedError{fmt.Errorf("write %s: %w", location, err)}
	}
	n, err := c.repoint(ctx, id, base.location, location)
	if err != nil {
		return nil, "", err
	}
	if n != 1 {
		return nil, "", fmt.Errorf("%w: the catalog has another metadata file of %s than %s by now", table.ErrCommitFailed, name, base.location)
	}
	c.remember(id, location, meta)
	return meta, location, nil
}

// notAskedError is one before the catalog was asked for anything: nothing can have landed.
type notAskedError struct{ error }

func (e notAskedError) Unwrap() error { return e.error }

// first commits to a table of which nothing is remembered, or that another program has named in another way.
func (c sqlCatalog) first(
	ctx context.Context, id table.Identifier, requires []table.Requirement, updates []table.Update,
) (table.Metadata, string, error) {
	meta, location, err := c.Catalog.CommitTable(ctx, id, requires, updates)
	if err == nil {
		c.remember(id, location, meta)
	}
	return meta, location, err
}

// writeMetadata writes a metadata file, compressed as the table wants it and its name says.
func writeMetadata(ctx context.Context, location string, meta table.Metadata) (err error) {
	at, err := storesOf(ctx)
	if err != nil {
		return err
	}
	f, err := at.Create(location)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	switch codec := meta.Properties().Get(table.MetadataCompressionKey, table.MetadataCompressionDefault); codec {
	case table.MetadataCompressionCodecNone:
		return json.NewEncoder(f).Encode(meta)
	case table.MetadataCompressionCodecGzip:
		zip := gzip.NewWriter(f)
		return errors.Join(json.NewEncoder(zip).Encode(meta), zip.Close())
	default:
		return fmt.Errorf("property %s: %q is neither none nor gzip", table.MetadataCompressionKey, codec)
	}
}

// pointers are the places of metadata files that a SQL catalog has.
type pointers struct {
	db *sql.DB
	// numbers is the sign before the number of a placeholder: PostgreSQL knows $1, SQLite ?1.
	numbers string
}

// metadataOf is the place of a table's metadata file; empty: it has none.
func (p pointers) metadataOf(ctx context.Context, id table.Identifier) (string, error) {
	var at sql.NullString
	err := p.db.QueryRowContext(ctx, p.text(`SELECT metadata_location FROM iceberg_tables
		WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3`), catalogName, id[0], id[1]).Scan(&at)
	if err != nil {
		return "", fmt.Errorf("ask the catalog for the metadata file of %s: %w", strings.Join(id, "."), err)
	}
	return at.String, nil
}

// repoint puts another place where a table has that one, and returns in how many rows.
func (p pointers) repoint(ctx context.Context, id table.Identifier, from, to string) (int64, error) {
	return p.change(ctx, `UPDATE iceberg_tables SET metadata_location = $1, previous_metadata_location = $2
		WHERE catalog_name = $3 AND table_namespace = $4 AND table_name = $5 AND metadata_location = $6`,
		to, from, catalogName, id[0], id[1], from)
}

// enlist makes a table known.
func (p pointers) enlist(ctx context.Context, id table.Identifier, location string) error {
	_, err := p.change(ctx, `INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
		VALUES ($1, $2, $3, $4, 'TABLE')`, catalogName, id[0], id[1], location)
	return err
}

// change carries out one statement, and returns how many rows it changed.
func (p pointers) change(ctx context.Context, statement string, args ...any) (int64, error) {
	done, err := p.db.ExecContext(ctx, p.text(statement), args...)
	if err != nil {
		return 0, fmt.Errorf("change the catalog: %w", err)
	}
	return done.RowsAffected()
}

// text writes the placeholders of a statement as the database reads them.
func (p pointers) text(statement string) string { return strings.ReplaceAll(statement, "$", p.numbers) }
