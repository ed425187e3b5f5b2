package lake

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	sqlcat "github.com/apache/iceberg-go/catalog/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// What a lake holds of a PostgreSQL server. One commit at a time per table needs one connection; the rest is for
// several tables and for looking.
const (
	pgConnections  = 8
	pgIdle         = 2
	pgIdleTime     = time.Minute
	pgLifetime     = 30 * time.Minute
	pgConnectLimit = 10 * time.Second
)

// SQLSTATE codes that are told apart.
const (
	pgNoDatabase  = "3D000"
	pgNoPassword  = "28P01"
	pgNoLogin     = "28000"
	pgNoRight     = "42501"
	pgUnique      = "23505"
	pgTableExists = "42P07"
	pgTypeExists  = "42710" // of the row type of a table
)

// postgresURL reads the key catalog, without what only the environment knows.
func postgresURL(value string) (*url.URL, error) {
	u, err := url.Parse(value)
	switch {
	case err != nil:
		return nil, badPostgres(value, errors.New("is no URL; special characters of a password stand in it as %XX"))
	case strings.Trim(u.Path, "/") == "" && !u.Query().Has("dbname"):
		return nil, badPostgres(value, errors.New("names no database"))
	}
	return u, nil
}

func badPostgres(value string, why error) error {
	return fmt.Errorf("catalog: %q %w; write postgres://user@host:5432/database?sslmode=verify-full", redactURL(value), why)
}

// postgresSource is a catalog in a PostgreSQL database.
func postgresSource(opt Options) (source, error) {
	u, err := postgresURL(opt.Catalog)
	if err != nil {
		return source{}, err
	}
	hidden := secrets{u.Query().Get("password"), u.Query().Get("sslpassword")}
	if u.User != nil {
		word, _ := u.User.Password()
		_, escaped, _ := strings.Cut(u.User.String(), ":")
		hidden = append(hidden, word, escaped)
	}
	cfg, err := pgx.ParseConfig(opt.Catalog)
	if err != nil {
		// The text of the error holds the URL; the reason stands in what it wraps.
		why := cmp.Or(errors.Unwrap(err), errors.New("it is malformed"))
		return source{}, badPostgres(opt.Catalog, fmt.Errorf("cannot be used: %w", hidden.hide(why)))
	}
	hidden = append(hidden, cfg.Password) // it may come from the environment
	pgDefaults(cfg)
	return source{name: redactURL(opt.Catalog), secrets: hidden, open: func(ctx context.Context, place string) (opened, error) {
		return openPostgres(ctx, cfg, place, opt.ReadOnly)
	}}, nil
}

// pgDefaults works through PgBouncer in transaction mode: no prepared statement outlives its transaction, and no
// parameter is set at the start but the name.
func pgDefaults(cfg *pgx.ConnConfig) {
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.StatementCacheCapacity, cfg.DescriptionCacheCapacity = 0, 0
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = pgConnectLimit
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "siglake"
	}
	// A server whose machine is gone says nothing. This finds out within a minute.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3,
	}}
	cfg.DialFunc = dialer.DialContext
}

func openPostgres(ctx context.Context, cfg *pgx.ConnConfig, place string, readOnly bool) (_ opened, err error) {
	// A server that was started again has closed every connection of the pool; asked of each before its use, that costs
	// a round trip and not a commit.
	ask := stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return true })
	db := stdlib.OpenDB(*cfg, ask)
	db.SetMaxOpenConns(pgConnections)
	db.SetMaxIdleConns(pgIdle)
	db.SetConnMaxIdleTime(pgIdleTime)
	db.SetConnMaxLifetime(pgLifetime)
	defer func() {
		if err != nil {
			err = errors.Join(pgAdvice(err, cfg, readOnly), db.Close())
		}
	}()
	there, err := pgInitialised(ctx, db)
	if err != nil {
		return opened{}, err
	}
	if readOnly && !there {
		return opened{}, fmt.Errorf("%w in database %s, which holds no Iceberg tables", ErrNoCatalog, cfg.Database)
	}
	cat, err := pgCatalog(ctx, db, place, !there)
	if err != nil {
		return opened{}, err
	}
	at := pointers{db, "$"}
	return opened{
		cat: newSQLCatalog(cat, at), pointers: at,
		close: func() error { return errors.Join(cat.Close(), db.Close()) },
	}, nil
}

// pgInitialised tells whether the catalog's tables are there. Only then can a role open it that must not make tables.
func pgInitialised(ctx context.Context, db *sql.DB) (bool, error) {
	var n int
	err := db.QueryRowContext(ctx, `SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()
		AND table_name IN ('iceberg_tables', 'iceberg_namespace_properties')`).Scan(&n)
	return n == 2, err
}

// pgCatalog opens the catalog, and makes its tables first. Of several that make them at once PostgreSQL lets one
// through and may tell the others that they are there, IF NOT EXISTS notwithstanding.
func pgCatalog(ctx context.Context, db *sql.DB, place string, mayMake bool) (*sqlcat.Catalog, error) {
	for {
		cat, err := sqlcat.NewCatalog(catalogName, db, sqlcat.Postgres, sqlProperties(place, mayMake))
		said, ok := errors.AsType[*pgconn.PgError](err)
		if !mayMake || !ok || !slices.Contains([]string{pgUnique, pgTableExists, pgTypeExists}, said.Code) {
			return cat, err
		}
		there, err := pgInitialised(ctx, db)
		if err != nil {
			return nil, err
		}
		mayMake = !there
	}
}

// pgAdvice adds what to do about an error.
func pgAdvice(err error, cfg *pgx.ConnConfig, readOnly bool) error {
	said, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return err
	case said.Code == pgNoDatabase && readOnly:
		return fmt.Errorf("%w: %w; make it (CREATE DATABASE %s), or name the right database", ErrNoHome, err, cfg.Database)
	case said.Code == pgNoDatabase:
		return fmt.Errorf("%w; make it (CREATE DATABASE %s), or correct the key catalog", err, cfg.Database)
	case said.Code == pgNoPassword, said.Code == pgNoLogin:
		return fmt.Errorf("%w; correct the user and the password: key catalog, or PGUSER and PGPASSWORD", err)
	case said.Code == pgNoRight:
		return fmt.Errorf("%w; let role %s make tables in its schema once, or make iceberg_tables and iceberg_namespace_properties for it", err, cfg.User)
	}
	return err
}
