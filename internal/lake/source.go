package lake

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// catalogName is part of the key of every row in a SQL catalog: another reader of it must use the same name.
const catalogName = "siglake"

// iceCatalog is what the lake asks of an Iceberg catalog. Tests put a faulty one in its place.
type iceCatalog interface {
	table.CatalogIO
	CheckNamespaceExists(ctx context.Context, ns table.Identifier) (bool, error)
	CreateNamespace(ctx context.Context, ns table.Identifier, props iceberg.Properties) error
	ListNamespaces(ctx context.Context, parent table.Identifier) ([]table.Identifier, error)
	tableNames(ctx context.Context, ns table.Identifier) ([]table.Identifier, error)
	DropNamespace(ctx context.Context, ns table.Identifier) error
	// dropTable forgets a table. A REST catalog is asked to remove its files; those of other catalogs stay.
	dropTable(ctx context.Context, id table.Identifier) error
}

// source is a catalog that the key catalog names.
type source struct {
	name    string   // for messages: without credentials
	secrets []string // what no message may hold
	// place is where new tables go, as the catalog must know it.
	open func(ctx context.Context, place string) (opened, error)
}

// opened is an open catalog.
type opened struct {
	cat      iceCatalog
	pointers // of a SQL catalog; without a database otherwise
	// inPlace finds out that the catalog is no longer the one that was opened; nil where that shows by itself.
	inPlace func() error
	// make makes a table if there is none of its name; nil: a commit does that requires that there is none.
	make func(ctx context.Context, id table.Identifier, b birth) (metadata string, err error)
	// register makes a table known by its metadata file; nil: a row of the database does that.
	register func(ctx context.Context, id table.Identifier, metadata string) error
	close    func() error
}

// Kinds of catalogs, by the scheme of the key catalog.
const (
	kindSQLite = iota
	kindPostgres
	kindREST
	kindUnknown
)

func kindOf(catalog string) int {
	switch scheme, _, _ := strings.Cut(catalog, "://"); scheme {
	case "sqlite":
		return kindSQLite
	case "postgres", "postgresql":
		return kindPostgres
	case "rest+https", "rest+http":
		return kindREST
	default:
		return kindUnknown
	}
}

// Validate looks at the text of Catalog and Warehouse, and at nothing else: no disk, no network. Its errors name the
// key and the way out, and repeat no credentials.
func (o Options) Validate() error {
	var err error
	switch kindOf(o.Catalog) {
	case kindSQLite:
		_, err = catalogPath(o.Catalog)
	case kindPostgres:
		_, err = postgresURL(o.Catalog)
	case kindREST:
		_, err = restURL(o.Catalog)
	default:
		err = fmt.Errorf("catalog: %q is none of sqlite:///absolute/path/catalog.db, postgres://user@host/database and rest+https://host/path",
			redactURL(o.Catalog))
	}
	_, werr := warehouseURL(o, "")
	return errors.Join(err, werr)
}

// LocalPlaces are the file of the catalog and the directory of the warehouse; "" for what is not on a disk of this
// machine, or not valid.
func (o Options) LocalPlaces() (catalog, warehouse string) {
	if kindOf(o.Catalog) == kindSQLite {
		catalog, _ = catalogPath(o.Catalog)
	}
	if at, err := warehouseURL(o, ""); err == nil && at != "" && !isObject(at) {
		warehouse, _ = localPath(at)
	}
	return catalog, warehouse
}

// sourceOf reads the key catalog, which Validate has seen. It talks to nobody.
func sourceOf(opt Options) (source, error) {
	switch kindOf(opt.Catalog) {
	case kindSQLite:
		return sqliteSource(opt)
	case kindPostgres:
		return postgresSource(opt)
	default:
		return restSource(opt)
	}
}

// sqlProperties are those of a SQL catalog.
func sqlProperties(place string, mayMake bool) iceberg.Properties {
	return iceberg.Properties{"warehouse": place, "init_catalog_tables": strconv.FormatBool(mayMake)}
}

func (c sqlCatalog) tableNames(ctx context.Context, ns table.Identifier) ([]table.Identifier, error) {
	return listed(c.ListTables(ctx, ns))
}

func (c sqlCatalog) dropTable(ctx context.Context, id table.Identifier) error {
	return c.DropTable(ctx, id)
}

// listed are the names of a listing. An error ends it.
func listed(names iter.Seq2[table.Identifier, error]) ([]table.Identifier, error) {
	var ids []table.Identifier
	for id, err := range names {
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// guard stands in front of every catalog: each call ends in bounded time, finds the lake's stores, and has no secret in
// its error.
type guard struct {
	cat     iceCatalog
	stores  *stores
	timeout time.Duration
	secrets secrets
}

func (g guard) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(g.stores.with(ctx), g.timeout, fmt.Errorf("the catalog did not answer within %s", g.timeout))
}

// end turns the error of a call into the one to return.
func (g guard) end(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return g.secrets.hide(err)
}

func (g guard) LoadTable(ctx context.Context, id table.Identifier) (*table.Table, error) {
	ctx, cancel := g.begin(ctx)
	defer cancel()
	t, err := g.cat.LoadTable(ctx, id)
	return t, g.end(ctx, err)
}

func (g guard) CommitTable(
	ctx context.Context, id table.Identifier, r []table.Requirement, u []table.Update,
) (table.Metadata, string, error) {
	ctx, cancel := g.begin(ctx)
	defer cancel()
	meta, location, err := g.cat.CommitTable(ctx, id, r, u)
	return meta, location, g.end(ctx, err)
}

func (g guard) CheckNamespaceExists(ctx context.Context, ns table.Identifier) (bool, error) {
	ctx, cancel := g.begin(ctx)
	defer cancel()
	there, err := g.cat.CheckNamespaceExists(ctx, ns)
	return there, g.end(ctx, err)
}

func (g guard) CreateNamespace(ctx context.Context, ns table.Identifier, props iceberg.Properties) error {
	ctx, cancel := g.begin(ctx)
	defer cancel()
	return g.end(ctx, g.cat.CreateNamespace(ctx, ns, props))
}

func (g guard) ListNamespaces(ctx context.Context, parent table.Identifier) ([]table.Identifier, error) {
	ctx, cancel := g.begin(ctx)
	defer cancel()
	out, err := g.cat.ListNamespaces(ctx, parent)
	return out, g.end(ctx, err)
}

func (g guard) tableNames(ctx context.Context, ns table.Identifier) ([]table.Identifier, error) {
	ctx, cancel := g.begin(ctx)
	defer cancel()
	out, err := g.cat.tableNames(ctx, ns)
	return out, g.end(ctx, err)
}

func (g guard) DropNamespace(ctx context.Context, ns table.Identifier) error {
	ctx, cancel := g.begin(ctx)
	defer cancel()
	return g.end(ctx, g.cat.DropNamespace(ctx, ns))
}

func (g guard) dropTable(ctx context.Context, id table.Identifier) error {
	ctx, cancel := g.begin(ctx)
	defer cancel()
	return g.end(ctx, g.cat.dropTable(ctx, id))
}
