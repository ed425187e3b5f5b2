package lake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/servicetest"
)

// The servers of this package's tests. Each is started by the first test that asks, and stopped by TestMain.
var (
	postgresService = &lazyService{kind: "postgres"}
	s3Service       = &lazyService{kind: "s3"}
	serial          atomic.Int64 // numbers databases and prefixes
)

type lazyService struct {
	kind string
	once sync.Once
	s    *servicetest.Service
	err  error
}

func (l *lazyService) get(tb testing.TB) *servicetest.Service {
	tb.Helper()
	l.once.Do(func() { l.s, l.err = servicetest.Start(l.kind) })
	require.NoError(tb, l.err)
	return l.s
}

func closeServices() error {
	var errs []error
	for _, l := range []*lazyService{postgresService, s3Service} {
		if l.s != nil {
			errs = append(errs, l.s.Close())
		}
	}
	return errors.Join(errs...)
}

// pgExec runs a statement in a database of the server.
func pgExec(tb testing.TB, url, statement string, args ...any) {
	tb.Helper()
	db, err := sql.Open("pgx", url)
	require.NoError(tb, err)
	_, err = db.ExecContext(context.Background(), statement, args...)
	require.NoError(tb, err)
	require.NoError(tb, db.Close())
}

// newDatabase makes an empty database and returns its URL.
func newDatabase(tb testing.TB) string {
	tb.Helper()
	info := postgresService.get(tb).Info
	name := fmt.Sprintf("lake%d", serial.Add(1))
	pgExec(tb, info["url"], "CREATE DATABASE "+name)
	u, err := url.Parse(info["url"])
	require.NoError(tb, err)
	u.Path = name
	return u.String()
}

// newBucketHome is a warehouse in the bucket of the server, with what is needed to reach it.
func newBucketHome(tb testing.TB) (warehouse string, access objstore.S3) {
	tb.Helper()
	info := s3Service.get(tb).Info
	return fmt.Sprintf("s3://%s/wh%d", info["bucket"], serial.Add(1)), objstore.S3{
		Endpoint: info["endpoint"], Region: info["region"], AccessKeyID: info["access_key"], SecretAccessKey: info["secret_key"],
	}
}

// objectPath is the file in which the S3 server keeps an object.
func objectPath(tb testing.TB, location string) string {
	tb.Helper()
	rest, ok := strings.CutPrefix(location, "s3://")
	require.True(tb, ok, location)
	return filepath.Join(s3Service.get(tb).Info["root"], filepath.FromSlash(rest))
}

// place is a pair of catalog and warehouse.
type place struct {
	name string
	opt  func(tb testing.TB) Options
}

// places are the pairs that everything must hold on.
func places() []place {
	return []place{
		{"sqlite_local", func(tb testing.TB) Options {
			tb.Helper()
			dir := tb.TempDir()
			return Options{Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse")}
		}},
		{"postgres_local", func(tb testing.TB) Options {
			tb.Helper()
			return Options{Catalog: newDatabase(tb), Warehouse: filepath.Join(tb.TempDir(), "warehouse")}
		}},
		{"postgres_s3", func(tb testing.TB) Options {
			tb.Helper()
			home, access := newBucketHome(tb)
			return Options{Catalog: newDatabase(tb), Warehouse: home, S3: access}
		}},
		{"rest_local", func(tb testing.TB) Options {
			tb.Helper()
			return Options{Catalog: "rest+" + newRESTServer(tb).URL, Warehouse: filepath.Join(tb.TempDir(), "warehouse")}
		}},
	}
}

// lakeOf opens a lake; the test closes it.
func lakeOf(tb testing.TB, opt Options, h hooks) *Lake {
	tb.Helper()
	if h.wait == nil {
		h.wait = noWait
	}
	l, err := open(tb.Context(), opt, h)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

// ownPostgres starts a server that the test may kill.
func ownPostgres(tb testing.TB) *servicetest.Service {
	tb.Helper()
	s, err := servicetest.Start("postgres")
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}
