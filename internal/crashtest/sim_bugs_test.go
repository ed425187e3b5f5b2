package crashtest

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"sync"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// simBug is a mistake at one of the product's seams, made for it by what is on the other side.
type simBug struct {
	fs        func(disk vfs.FS) vfs.FS // of the writer
	drainFS   func(disk vfs.FS) vfs.FS // of the drains
	store     func(simStore) objstore.Store
	catalog   func(simCatalog) drain.Catalog
	committed func(simCatalog) committedRows // what the retention of the mirror asks
	drops     dropBug
	needs     func(simPlan) bool // seeds without this cannot show it; nil: all can
	breaks    string             // id of a promise
}

// committedRows tells how many rows of segments a table has.
type committedRows func(context.Context, string, string, []segment.ID) (map[segment.ID]int64, error)

// simBugs are planted one at a time.
var simBugs = map[string]simBug{
	"answer before the sync":            {fs: lazy(wrapped{noSync: true}), breaks: "ACK-1"},
	"names not synced":                  {fs: lazy(wrapped{noSyncDir: true}), breaks: "ACK-1"},
	"mark before the commit":            {catalog: tables(func(t simTable) drain.Table { return hasty{t} }), breaks: "ACK-1"},
	"unknown outcome taken for failed":  {catalog: tables(func(t simTable) drain.Table { return sure{t} }), breaks: "LAKE-1"},
	"orphans taken for committed":       {catalog: tables(func(t simTable) drain.Table { return believer{t} }), breaks: "RET-1"},
	"commit without compare-and-swap":   {catalog: tables(func(t simTable) drain.Table { return blind(t) }), breaks: "LAKE-1"},
	"unpin before the upload":           {store: func(s simStore) objstore.Store { return &promising{simStore: s} }, breaks: "MIR-1"},
	"retention of what is in no table":  {committed: func(simCatalog) committedRows { return allCommitted }, breaks: "RET-1"},
	"a standby that does not wait":      {drainFS: func(disk vfs.FS) vfs.FS { return lockless{disk} }, needs: hasStandby, breaks: "ACK-1"},
	"head not looked at":                {drainFS: func(disk vfs.FS) vfs.FS { return headless{disk} }, breaks: "ACK-1"},
	"checksums not looked at":           {drainFS: lazy(wrapped{noChecksum: true}), needs: hasRot, breaks: "ACK-2"},
	"damage dropped in silence":         {drainFS: func(disk vfs.FS) vfs.FS { return silent{disk} }, needs: hasRot, breaks: "LOUD-1"},
	"checks of records not looked at":   {fs: uncheck, drainFS: uncheck, needs: hasRot, breaks: "ACK-1"},
	"days dropped before they settle":   {drops: dropBug{young: true}, needs: hasDays, breaks: "LAKE-1"},
	"days dropped over a commit":        {drops: dropBug{whole: true}, needs: hasDays, breaks: "ACK-1"},
	"a refused deletion taken for done": {store: func(s simStore) objstore.Store { return keeping{s} }, breaks: "BND-1"},
}

func hasStandby(p simPlan) bool { return p.standby }
func hasRot(p simPlan) bool     { return len(p.rots) > 0 }
func hasDays(p simPlan) bool    { return p.days.keep > 0 }

func (b simBug) storeOf(s simStore) objstore.Store {
	if b.store == nil {
		return s
	}
	return b.store(s)
}

func (b simBug) catalogOf(c simCatalog) drain.Catalog {
	if b.catalog == nil {
		return c
	}
	return b.catalog(c)
}

func (b simBug) committedOf(c simCatalog) committedRows {
	if b.committed == nil {
		return c.committed
	}
	return b.committed(c)
}

// otherTables is a catalog whose tables are not what they should be.
type otherTables struct {
	simCatalog

	wrap func(simTable) drain.Table
}

func tables(wrap func(simTable) drain.Table) func(simCatalog) drain.Catalog {
	return func(c simCatalog) drain.Catalog { return otherTables{c, wrap} }
}

func (c otherTables) Ensure(ctx context.Context, tenant, index string, s otelarrow.Signal) (drain.Table, bool, error) {
	t, made, err := c.simCatalog.Ensure(ctx, tenant, index, s)
	if err != nil {
		return nil, false, err
	}
	return c.wrap(t.(simTable)), made, nil
}

// hasty says that a commit was made before it is, and makes it soon if its process lives.
type hasty struct{ simTable }

func (t hasty) Commit(_ context.Context, segs []lake.Segment) (lake.Outcome, error) {
	x, out, err := t.load(segs, true)
	if err != nil {
		return out, err
	}
	p := t.of.p
	p.w.later(commitLands, t.lane, func() {
		if !p.dead.Load() {
			x.base = -1
			t.c.land(x)
		}
	})
	return out, nil
}

// sure writes what it is given, whatever became of it before.
type sure struct{ simTable }

func (t sure) Commit(ctx context.Context, segs []lake.Segment) (lake.Outcome, error) {
	for i := range segs {
		segs[i].Doubtful = false
	}
	return t.simTable.Commit(ctx, segs)
}

// believer takes every segment for committed that it is asked about.
type believer struct{ simTable }

func (believer) Lookup(_ context.Context, ids []string) (map[string]int64, error) {
	out := map[string]int64{}
	for _, id := range ids {
		out[id] = math.MaxInt64
	}
	return out, nil
}

// blind commits on whatever head there is.
func blind(t simTable) simTable {
	t.blind = true
	return t
}

func allCommitted(_ context.Context, _, _ string, ids []segment.ID) (map[segment.ID]int64, error) {
	out := map[segment.ID]int64{}
	for _, id := range ids {
		out[id] = math.MaxInt64
	}
	return out, nil
}

// promising answers an upload before it is made, and makes it soon if its process lives.
type promising struct {
	simStore

	mu       sync.Mutex
	promised map[string]objstore.Info
}

func (s *promising) Put(ctx context.Context, key string, c *objstore.Content) error {
	if key == marker {
		return s.simStore.Put(ctx, key, c)
	}
	body, err := io.ReadAll(c.Reader())
	if err != nil {
		return err
	}
	sum := crc32.ChecksumIEEE(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	more := map[string]objstore.Info{key: {Key: key, Size: c.Size(), CRC32: &sum}}
	maps.Copy(more, s.promised)
	s.promised = more
	p := s.p
	p.w.later(storeLands, key, func() {
		if !p.dead.Load() {
			_ = p.w.store.Put(context.Background(), key, objstore.NewContent(bytes.NewReader(body), int64(len(body))))
		}
	})
	return nil
}

func (s *promising) Stat(ctx context.Context, key string) (objstore.Info, error) {
	s.mu.Lock()
	info, ok := s.promised[key]
	s.mu.Unlock()
	if ok {
		return info, nil
	}
	return s.simStore.Stat(ctx, key)
}

// keeping says that it has deleted.
type keeping struct{ simStore }

func (keeping) Delete(context.Context, string) error { return nil }

// lockless lets every drain work at once.
type lockless struct{ vfs.FS }

func (l lockless) Lock(name, text string) (io.Closer, error) {
	lock, err := l.FS.Lock(name, text)
	if _, held := errors.AsType[*vfs.LockedError](err); held && filepath.Base(name) == segment.DrainLockName {
		return io.NopCloser(nil), nil
	}
	return lock, err
}

// silent has no poison/: what is to be set aside there is gone.
type silent struct{ vfs.FS }

func (s silent) Link(from, to string) error {
	if stateOf(to) == segment.Poison {
		return nil
	}
	return s.FS.Link(from, to)
}

// headless has no record of what was seen of a table.
type headless struct{ vfs.FS }

func (h headless) Open(name string) (vfs.File, error) {
	if filepath.Base(name) == "head" {
		return nil, fs.ErrNotExist
	}
	return h.FS.Open(name)
}
