package lake

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// hooks are the seams of a lake for tests.
type hooks struct {
	scheme string                                           // of the warehouse URL; "" = file
	wrap   func(iceCatalog) iceCatalog                      // puts a faulty catalog in front
	wait   func(ctx context.Context, d time.Duration) error // between tries of a commit
	limits limits
}

// Lake is an open catalog and its warehouse. Safe for concurrent use.
type Lake struct {
	opened
	cat      iceCatalog // opened.cat behind its guard
	io       *stores
	home     string // URL of the warehouse; empty: the catalog chooses
	readOnly bool
	promote  *otelarrow.Promotions // nil: as each table remembers
	now      func() time.Time
	wait     func(context.Context, time.Duration) error
	limits   limits
	log      *zap.Logger
	metrics  *metrics
	encoding chan *arena  // goroutines that turn rows into Parquet at one time: one holds an arena
	busy     atomic.Int32 // commits of rows that are at work: compaction waits for them

	mu       sync.Mutex
	expected map[string]head   // of tables, by the same key
	tables   map[string]*Table // by identifier and uuid: commits to one table must meet in one Table
}

// Open opens the lake, and makes catalog and warehouse when they are missing and opt is not ReadOnly. The database of a
// PostgreSQL catalog and the bucket of a warehouse must be there.
//
//	durable  a catalog file it made, and its name
//	safe     several lakes, also of several processes, may be open on one catalog; on a SQLite file only of one machine
//	errors   ErrNoCatalog (read-only and nothing there); a wrong key is named with its value and the way out
//	ctx      ends the asking; a lake that is open does not know it
func Open(ctx context.Context, opt Options) (*Lake, error) { return open(ctx, opt, hooks{}) }

func open(ctx context.Context, opt Options, h hooks) (_ *Lake, err error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	from, err := sourceOf(opt)
	if err != nil {
		return nil, err
	}
	hidden := append(secrets{opt.S3.SecretAccessKey, opt.S3.SessionToken}, from.secrets...)
	defer func() { err = hidden.hide(err) }()
	warehouse, err := warehouseURL(opt, h.scheme)
	if err != nil {
		return nil, err
	}
	if err := registerIO(ctx); err != nil {
		return nil, err
	}
	l := newLake(opt, h)
	l.home = warehouse
	defer func() {
		if err != nil {
			err = errors.Join(err, l.io.Close())
		}
	}()
	if l.metrics, err = newMetrics(meterOf(opt), opt.Promote); err != nil {
		return nil, fmt.Errorf("make the lake's metrics: %w", err)
	}
	if !opt.ReadOnly && warehouse != "" {
		if err := l.io.prepare(warehouse); err != nil {
			return nil, fmt.Errorf("warehouse: %q: %w", redactURL(opt.Warehouse), err)
		}
	}
	opening, cancel := context.WithTimeout(l.io.with(ctx), l.limits.commitTimeout)
	defer cancel()
	if l.opened, err = from.open(opening, warehouse); err != nil {
		return nil, fmt.Errorf("open catalog %s: %w", from.name, err)
	}
	l.cat = guard{cat: l.opened.cat, stores: l.io, timeout: l.limits.commitTimeout, secrets: hidden}
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
		tables:   map[string]*Table{}, expected: map[string]head{},
		io: newStores(opt.S3, h.limits.orDefault().storePatience),
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

// stillThere finds out that the catalog is not the one any more that was opened, where that is possible.
func (l *Lake) stillThere() error {
	if l.inPlace == nil {
		return nil
	}
	return l.inPlace()
}

// Close closes the catalog. No Commit may be running.
func (l *Lake) Close() error {
	return errors.Join(l.close(), l.io.Close())
}

// warehouseURL reads the key warehouse.
func warehouseURL(opt Options, scheme string) (string, error) {
	value := opt.Warehouse
	switch {
	case value == "" && (opt.ReadOnly || strings.HasPrefix(opt.Catalog, "rest+")):
		return "", nil
	case isObject(value):
		return objectHome(value)
	}
	if scheme == "" {
		scheme = "file"
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
		return "", fmt.Errorf("warehouse: %q is neither a directory nor one of file:///path, s3://bucket/prefix, gs://bucket/prefix, azblob://container/prefix",
			redactURL(opt.Warehouse))
	}
	path, err := filepath.Abs(value)
	if err != nil {
		return "", fmt.Errorf("warehouse: %q: %w", opt.Warehouse, err)
	}
	return (&url.URL{Scheme: scheme, Path: filepath.ToSlash(path)}).String(), nil
}

// objectHome reads a warehouse in a bucket. Credentials and options have no place in it: it is written into the tables.
func objectHome(value string) (string, error) {
	scheme, rest, _ := strings.Cut(value, "://")
	bucket, prefix, _ := strings.Cut(rest, "/")
	if bucket == "" || strings.ContainsAny(rest, "@?#") {
		return "", fmt.Errorf("warehouse: %q is not %s://bucket/prefix; credentials go into the section s3 or the environment", redactURL(value), scheme)
	}
	if prefix = strings.Trim(path.Clean("/"+prefix), "/"); prefix == "" {
		return scheme + "://" + bucket, nil
	}
	return scheme + "://" + bucket + "/" + prefix, nil
}

// prepare makes the directory of a warehouse, or asks for the bucket.
func (s *stores) prepare(warehouse string) error {
	if isObject(warehouse) {
		return s.probe(warehouse)
	}
	at, err := s.at(warehouse)
	if err != nil {
		return err
	}
	local, ok := at.(*syncIO)
	if !ok {
		return fmt.Errorf("%T does not sync", at)
	}
	dir, err := localPath(warehouse)
	if err != nil {
		return err
	}
	return local.makeDir(dir)
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
