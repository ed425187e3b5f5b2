package lake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go"
	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // the database driver "sqlite"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// catalogName is part of the key of every row in the catalog: another reader of it must use the same name.
const catalogName = "siglake"

// iceCatalog is what the lake asks of an Iceberg catalog. Tests put a faulty one in its place.
type iceCatalog interface {
	table.CatalogIO
	CheckNamespaceExists(ctx context.Context, ns table.Identifier) (bool, error)
	CreateNamespace(ctx context.Context, ns table.Identifier, props iceberg.Properties) error
	ListNamespaces(ctx context.Context, parent table.Identifier) ([]table.Identifier, error)
	tableNames(ctx context.Context, ns table.Identifier) ([]table.Identifier, error)
}

type sqlCatalog struct{ *sqlcat.Catalog }

func (c sqlCatalog) tableNames(ctx context.Context, ns table.Identifier) ([]table.Identifier, error) {
	var ids []table.Identifier
	for id, err := range c.ListTables(ctx, ns) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// hooks are the seams of a lake for tests.
type hooks struct {
	scheme string                                           // of the warehouse URL; "" = file
	wrap   func(iceCatalog) iceCatalog                      // puts a faulty catalog in front
	wait   func(ctx context.Context, d time.Duration) error // between tries of a commit
	limits limits
}

// Lake is an open catalog and its warehouse. Safe for concurrent use.
type Lake struct {
	db       *sql.DB
	raw      *sqlcat.Catalog
	cat      iceCatalog
	io       iceio.IO
	path     string      // of the catalog file
	file     os.FileInfo // what path named when it was opened
	home     string      // URL of the warehouse
	readOnly bool
	promote  *otelarrow.Promotions // nil: as each table remembers
	now      func() time.Time
	wait     func(context.Context, time.Duration) error
	limits   limits
	log      *zap.Logger
	metrics  *metrics
	encoding chan *arena // goroutines that turn rows into Parquet at one time: one holds an arena

	mu     sync.Mutex
	tables map[string]*Table // by identifier and uuid: commits to one table must meet in one Table
}

// Open opens the lake, and makes catalog and warehouse when they are missing and opt is not ReadOnly.
//
//	durable  a catalog file it made, and its name
//	safe     several lakes, also of several processes on one machine, may be open on one catalog
//	errors   ErrNoCatalog (read-only and nothing there); a wrong key is named with its value and the way out
func Open(ctx context.Context, opt Options) (*Lake, error) { return open(ctx, opt, hooks{}) }

func open(ctx context.Context, opt Options, h hooks) (_ *Lake, err error) {
	path, err := catalogPath(opt.Catalog)
	if err != nil {
		return nil, err
	}
	if err := checkCatalogPath(opt, path); err != nil {
		return nil, err
	}
	warehouse, err := warehouseURL(opt, h.scheme)
	if err != nil {
		return nil, err
	}
	if err := registerIO(ctx); err != nil {
		return nil, err
	}
	l := newLake(opt, h)
	l.home = warehouse
	if l.metrics, err = newMetrics(meterOf(opt), opt.Promote); err != nil {
		return nil, fmt.Errorf("make the lake's metrics: %w", err)
	}
	if l.io, err = iceio.LoadFS(ctx, nil, warehouse); err != nil {
		return nil, fmt.Errorf("load the IO of warehouse %s: %w", warehouse, err)
	}
	if !opt.ReadOnly {
		if err := prepareWarehouse(l.io, warehouse); err != nil {
			return nil, fmt.Errorf("make the warehouse %q (key warehouse): %w", opt.Warehouse, err)
		}
	}
	if err := l.openCatalog(ctx, path, warehouse); err != nil {
		return nil, err
	}
	l.cat = sqlCatalog{l.raw}
	if h.wrap != nil {
		l.cat = h.wrap(l.cat)
	}
	return l, nil
}

func newLake(opt Options, h hooks) *Lake {
	l := &Lake{
		readOnly: opt.ReadOnly,
		promote:  opt.Promote,
		now:      opt.Now,
		wait:     h.wait,
		limits:   h.limits.orDefault(),
		log:      opt.Logger,
		tables:   map[string]*Table{},
		// All cores but one: who encodes holds one for long, and the requests of this process must not wait for it.
		encoding: arenas(max(1, runtime.GOMAXPROCS(0)-1)),
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.wait == nil {
		l.wait = sleep
	}
	if l.log == nil {
		l.log = zap.NewNop()
	}
	return l
}

// openCatalog opens the database file at path and the Iceberg catalog in it.
func (l *Lake) openCatalog(ctx context.Context, path, warehouse string) (err error) {
	l.db, err = sql.Open("sqlite", sqliteDSN(path, l.readOnly))
	if err != nil {
		return fmt.Errorf("open catalog %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.db.Close())
		}
	}()
	if err := l.db.PingContext(ctx); err != nil {
		return fmt.Errorf("open catalog %s: %w", path, err)
	}
	if l.readOnly {
		if err := checkInitialised(ctx, l.db, path); err != nil {
			return err
		}
	} else if err := (osDisk{}).syncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("sync the directory of catalog %s: %w", path, err)
	}
	props := iceberg.Properties{"warehouse": warehouse, "init_catalog_tables": strconv.FormatBool(!l.readOnly)}
	if l.raw, err = sqlcat.NewCatalog(catalogName, l.db, sqlcat.SQLite, props); err != nil {
		return fmt.Errorf("open catalog %s: %w", path, err)
	}
	l.path = path
	if l.file, err = os.Stat(path); err != nil {
		return fmt.Errorf("open catalog %s: %w", path, err)
	}
	return nil
}

// inPlace checks that the catalog's path still leads to the file that is open. A commit into a file that was deleted
// or replaced succeeds and is gone with the process: nothing may be believed that this lake says then.
func (l *Lake) inPlace() error {
	now, err := os.Stat(l.path)
	if err != nil {
		return fmt.Errorf("%w: %w; stop the collector, put it back and start again", ErrCatalogGone, err)
	}
	if !os.SameFile(now, l.file) {
		return fmt.Errorf("%w: %s is another file than the one that was opened; start the collector again", ErrCatalogGone, l.path)
	}
	return nil
}

// Close closes the catalog. No Commit may be running.
func (l *Lake) Close() error {
	return errors.Join(l.raw.Close(), l.db.Close())
}

// sqliteDSN makes SQLite wait for other processes, and sync each commit: WAL segments are deleted after it.
// Writers begin immediate, so that the wait happens before anything is read.
func sqliteDSN(path string, readOnly bool) string {
	q := "_pragma=busy_timeout(15000)"
	if readOnly {
		q += "&mode=ro&_pragma=query_only(true)"
	} else {
		q += "&_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q}
	return u.String()
}

// catalogPath reads the key catalog.
func catalogPath(value string) (string, error) {
	rest, ok := strings.CutPrefix(value, "sqlite://")
	if !ok || rest == "" || strings.HasSuffix(rest, "/") {
		return "", fmt.Errorf("catalog: %q is not sqlite:///absolute/path/catalog.db; it is the only kind this version can open", value)
	}
	// sqlite:///./x and sqlite://./x are both relative: the first is how other programs write it.
	if strings.HasPrefix(rest, "/./") || strings.HasPrefix(rest, "/../") {
		rest = rest[1:]
	}
	path, err := filepath.Abs(rest)
	if err != nil {
		return "", fmt.Errorf("catalog: %q: %w", value, err)
	}
	return path, nil
}

func checkCatalogPath(opt Options, path string) error {
	dir := filepath.Dir(path)
	there, err := dirExists(dir)
	if err != nil {
		return fmt.Errorf("catalog: %q: %w", opt.Catalog, err)
	}
	if !there && !opt.ReadOnly {
		return fmt.Errorf("catalog: %q: the directory %s does not exist; make it, or correct the key catalog", opt.Catalog, dir)
	}
	if !opt.ReadOnly {
		return nil
	}
	there, err = fileExists(path)
	if err != nil {
		return fmt.Errorf("catalog: %q: %w", opt.Catalog, err)
	}
	if !there {
		return fmt.Errorf("%w at %s: start the collector once to make it, or name the directory its data is in", ErrNoCatalog, path)
	}
	return nil
}

// checkInitialised tells a catalog from any other database file.
func checkInitialised(ctx context.Context, db *sql.DB, path string) error {
	var n int
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'iceberg_tables'").Scan(&n)
	if err != nil {
		return fmt.Errorf("read catalog %s: %w", path, err)
	}
	if n == 0 {
		return fmt.Errorf("%w in %s: the file holds no Iceberg tables; start the collector once, or name the right file", ErrNoCatalog, path)
	}
	return nil
}

// warehouseURL reads the key warehouse.
func warehouseURL(opt Options, scheme string) (string, error) {
	value := opt.Warehouse
	if scheme == "" {
		scheme = "file"
	}
	if value == "" && opt.ReadOnly {
		return scheme + ":///", nil
	}
	if rest, ok := strings.CutPrefix(value, "file://"); ok {
		u, err := url.Parse(value)
		if err != nil {
			return "", fmt.Errorf("warehouse: %q: %w", opt.Warehouse, err)
		}
		// file://./x is not meant as a URL with the host "."; it is what "file://" and a relative path make.
		switch u.Host {
		case "", "localhost":
			value = u.Path
		case ".", "..":
			value = rest
		default:
			return "", fmt.Errorf("warehouse: %q names the host %q: want file:///absolute/path", opt.Warehouse, u.Host)
		}
	}
	if value == "" || strings.Contains(value, "://") {
		return "", fmt.Errorf("warehouse: %q is neither a directory nor a file:// URL; other stores are not built in this version", opt.Warehouse)
	}
	path, err := filepath.Abs(value)
	if err != nil {
		return "", fmt.Errorf("warehouse: %q: %w", opt.Warehouse, err)
	}
	return (&url.URL{Scheme: scheme, Path: filepath.ToSlash(path)}).String(), nil
}

func prepareWarehouse(fsys iceio.IO, warehouse string) error {
	s, ok := fsys.(*syncIO)
	if !ok {
		return fmt.Errorf("%T does not sync", fsys)
	}
	path, err := localPath(warehouse)
	if err != nil {
		return err
	}
	return s.makeDir(path)
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
