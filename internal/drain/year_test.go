package drain

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// watched is a catalog that notes which segments each commit was offered, by tenant.
type watched struct {
	Catalog
	mu      sync.Mutex
	commits map[string][][]string
}

type watchedTable struct {
	Table
	tenant string
	c      *watched
}

func (c *watched) Ensure(ctx context.Context, tenant, index string, s otelarrow.Signal) (Table, bool, error) {
	t, created, err := c.Catalog.Ensure(ctx, tenant, index, s)
	if err != nil {
		return nil, false, err
	}
	return &watchedTable{Table: t, tenant: tenant, c: c}, created, nil
}

func (t *watchedTable) Commit(ctx context.Context, segs []lake.Segment) (lake.Outcome, error) {
	ids := make([]string, len(segs))
	for i, s := range segs {
		ids[i] = s.ID
	}
	t.c.mu.Lock()
	t.c.commits[t.tenant] = append(t.c.commits[t.tenant], ids)
	t.c.mu.Unlock()
	return t.Table.Commit(ctx, segs)
}

// year is a backlog of late rows in several tenants. Every second tenant's segments are of one day each; the rows of the
// others lie in half of the days.
type year struct {
	*world
	tenants, days, rows int
	want                map[string]map[string]map[int64]int // by tenant, segment, row
}

func (y *year) sealIn(tenant string, s spec) string {
	y.t.Helper()
	dir, err := y.root.Lane(tenant, "events")
	require.NoError(y.t, err)
	require.NoError(y.t, dir.Prepare())
	id := y.namer(tenant).Next(time.Now())
	path := dir.Path(segment.Sealed, id.FileName())
	require.NoError(y.t, os.WriteFile(path+".tmp", y.bytes.of(y.t, s), 0o600))
	require.NoError(y.t, os.Rename(path+".tmp", path)) // a drain may run
	rows := make(map[int64]int, s.rows)
	for i := range s.rows {
		rows[int64(i)] = 1
	}
	if y.want[tenant] == nil {
		y.want[tenant] = map[string]map[int64]int{}
	}
	y.want[tenant][id.String()] = rows
	return id.String()
}

func (y *year) fill(today time.Time) {
	y.t.Helper()
	for n := range y.tenants {
		for d := range y.days {
			s := spec{rows: y.rows, at: today.AddDate(0, 0, -2-d)}
			if n%2 == 1 {
				s.at, s.days = today.AddDate(0, 0, -2-d%(y.days/2)), y.days/2
			}
			y.sealIn(tenantName(n), s)
		}
	}
	clear(y.bytes)
}

func tenantName(n int) string { return fmt.Sprint("tenant-", n) }

// left counts what is not committed yet.
func (y *year) left() int {
	y.t.Helper()
	n := 0
	for i := range y.tenants {
		dir, err := y.root.Lane(tenantName(i), "events")
		require.NoError(y.t, err)
		for _, st := range []segment.State{segment.Sealed, segment.Processing} {
			n += len(y.namesOf(dir, st))
		}
	}
	return n
}

// isCommitted tells whether a segment of today is marked.
func (y *year) isCommitted(tenant, id string) bool {
	y.t.Helper()
	dir, err := y.root.Lane(tenant, "events")
	require.NoError(y.t, err)
	_, err = os.Stat(dir.Path(segment.Committed, id+".arrow"))
	return err == nil
}

// A year of late data in one backlog: drained, each row once, in as many files as its days need and few more, and rows of
// today, sealed last, are in the first commits. The whole of it (400 days in 20 tenants, 512 MiB) with SIGLAKE_SOAK=1, which says
// what it took.
func TestYear_of_late_data(t *testing.T) {
	soak := os.Getenv("SIGLAKE_SOAK") != ""
	y := &year{tenants: 2, days: 30, rows: 20, want: map[string]map[string]map[int64]int{}}
	switch {
	case soak:
		y.tenants, y.days, y.rows = 20, 400, 200
	case testing.Short(): // under the race detector
		y.days = 8
	}
	var l *lake.Lake
	y.world, l = realWorld(t)
	watch := &watched{Catalog: lakeCatalog{l}, commits: map[string][][]string{}}
	y.opt.Catalog = watch
	today := time.Now()
	y.fill(today)
	first := map[string]string{}
	for n := range y.tenants {
		first[tenantName(n)] = y.sealIn(tenantName(n), spec{rows: 3, at: today})
	}
	if soak {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(512 << 20))
		debug.FreeOSMemory()
		require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200)) // the peak counts from here
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- Run(ctx, y.opt) }()
	waits := y.whileDraining(today, first, soak)
	took, peak := time.Since(began), peakRSS(t)
	cancel()
	require.NoError(t, <-done)

	files := y.check(l, watch, first)
	t.Logf("%d tenants x %d days: drained in %s, %d files, peak RSS %s; rows of today were there after at most %s, of %d",
		y.tenants, y.days, took.Round(time.Second), files, peak, waits.most.Round(time.Millisecond), waits.n)
}

type waited struct {
	most time.Duration
	n    int
}

// whileDraining waits until all is committed. Meanwhile it seals more rows of today, in one tenant after the other, and
// measures how long each waits.
func (y *year) whileDraining(today time.Time, first map[string]string, more bool) waited {
	y.t.Helper()
	var w waited
	open, at := maps.Clone(first), map[string]time.Time{}
	for tenant := range open {
		at[tenant] = time.Now()
	}
	limit := time.Now().Add(5*time.Minute + time.Duration(y.tenants*y.days)*time.Second)
	for next := 0; ; next++ {
		require.True(y.t, time.Now().Before(limit), "not drained: %d segments left", y.left())
		for tenant, id := range open {
			if y.isCommitted(tenant, id) {
				w.most, w.n = max(w.most, time.Since(at[tenant])), w.n+1
				delete(open, tenant)
			}
		}
		if len(open) == 0 && y.left() == 0 {
			return w
		}
		if tenant := tenantName(next / 20 % y.tenants); more && next%20 == 0 && open[tenant] == "" && y.left() > 0 {
			open[tenant], at[tenant] = y.sealIn(tenant, spec{rows: 3, at: today}), time.Now()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// check compares what is in the tables and how it came there, and counts the files.
func (y *year) check(l *lake.Lake, watch *watched, first map[string]string) int {
	y.t.Helper()
	files := 0
	for n := range y.tenants {
		tenant := tenantName(n)
		plan, err := l.Plan(y.t.Context(), lake.NamespaceOf(tenant), "events")
		require.NoError(y.t, err)
		rows := map[string]map[int64]int{}
		late := map[string]int{}
		for _, f := range plan.Files {
			countRows(y.t, f.Path, rows)
			late[filepath.Base(filepath.Dir(f.Path))]++
		}
		require.Equal(y.t, y.want[tenant], rows, tenant)
		delete(late, "timestamp_day="+time.Now().UTC().Format(time.DateOnly))
		require.GreaterOrEqual(y.t, len(late), y.days-1, "%s: each day has its partition", tenant)
		commits := 0
		for _, ids := range watch.commits[tenant] {
			if len(ids) > 1 {
				commits++
			}
		}
		made := len(plan.Files)
		if n%2 == 0 {
			require.LessOrEqual(y.t, made, y.days+len(watch.commits[tenant]), "%s: a file a day, and those of today", tenant)
		} else {
			require.LessOrEqual(y.t, made, y.days*(commits+1), "%s: rows of a day share a file", tenant)
			require.LessOrEqual(y.t, commits, 2+y.days*y.rows/8000, "%s", tenant)
		}
		files += made
		require.Contains(y.t, strings.Join(watch.commits[tenant][0], " "), first[tenant], "%s: today first", tenant)
	}
	return files
}

// peakRSS is the most memory the process has held.
func peakRSS(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "not known"
}
