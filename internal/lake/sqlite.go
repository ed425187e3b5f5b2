package lake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	_ "modernc.org/sqlite" // the database driver "sqlite"
)

// sqliteSource is a catalog in a file of this machine.
func sqliteSource(opt Options) (source, error) {
	path, err := catalogPath(opt.Catalog)
	if err != nil {
		return source{}, err
	}
	if err := checkCatalogPath(opt, path); err != nil {
		return source{}, err
	}
	return source{name: path, open: func(ctx context.Context, place string) (opened, error) {
		return openSQLite(ctx, path, place, opt.ReadOnly)
	}}, nil
}

// openSQLite opens the database file at path and the Iceberg catalog in it.
func openSQLite(ctx context.Context, path, place string, readOnly bool) (_ opened, err error) {
	db, err := sql.Open("sqlite", sqliteDSN(path, readOnly))
	if err != nil {
		return opened{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if err := db.PingContext(ctx); err != nil {
		return opened{}, err
	}
	if readOnly {
		if err := checkInitialised(ctx, db, path); err != nil {
			return opened{}, err
		}
	} else if err := (osDisk{}).syncDir(filepath.Dir(path)); err != nil {
		return opened{}, fmt.Errorf("sync its directory: %w", err)
	}
	cat, err := sqlcat.NewCatalog(catalogName, db, sqlcat.SQLite, sqlProperties(place, !readOnly))
	if err != nil {
		return opened{}, err
	}
	file, err := os.Stat(path)
	if err != nil {
		return opened{}, err
	}
	at := pointers{db, "?"}
	return opened{
		cat: newSQLCatalog(cat, at), pointers: at, inPlace: func() error { return sameFile(path, file) },
		close: func() error { return errors.Join(cat.Close(), db.Close()) },
	}, nil
}

// sameFile checks that the catalog's path still leads to the file that is open. A commit into a file that was deleted
// or replaced succeeds and is gone with the process: nothing may be believed that this lake says then.
func sameFile(path string, file os.FileInfo) error {
	now, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w: %w; stop the collector, put it back and start again", ErrCatalogGone, err)
	}
	if !os.SameFile(now, file) {
		return fmt.Errorf("%w: %s is another file than the one that was opened; start the collector again", ErrCatalogGone, path)
	}
	return nil
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

// catalogPath reads the path of a key catalog that begins with sqlite://.
func catalogPath(value string) (string, error) {
	rest, ok := strings.CutPrefix(value, "sqlite://")
	if !ok || rest == "" || strings.HasSuffix(rest, "/") {
		return "", fmt.Errorf("catalog: %q is not sqlite:///absolute/path/catalog.db", value)
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
		return fmt.Errorf("%w at %s", ErrNoCatalog, path)
	}
	return nil
}

// checkInitialised tells a catalog from any other database file.
func checkInitialised(ctx context.Context, db *sql.DB, path string) error {
	var n int
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'iceberg_tables'").Scan(&n)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%w in %s, which holds no Iceberg tables", ErrNoCatalog, path)
	}
	return nil
}
