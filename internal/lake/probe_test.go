package lake

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// everythingBelow lists files and directories of a warehouse, of the S3 server's disk where it is there.
func everythingBelow(tb testing.TB, warehouse string) []string {
	tb.Helper()
	dir := warehouse
	if isObject(warehouse) {
		dir = objectPath(tb, warehouse)
	}
	var out []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && (!isObject(warehouse) || !d.IsDir()) { // the server's directories are no objects
			out = append(out, strings.TrimPrefix(name, dir))
		}
		return err
	})
	if !os.IsNotExist(err) {
		require.NoError(tb, err)
	}
	return out
}

// The probe finds every catalog and warehouse sound, and leaves nothing of itself and all that was there.
func TestProbe(t *testing.T) {
	t.Parallel()
	for _, p := range places() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			opt := p.opt(t)
			l := lakeOf(t, opt, hooks{})
			_, err := events(t, l).Commit(t.Context(), []Segment{newSegment(t, 1, 3)})
			require.NoError(t, err)
			before := everythingBelow(t, opt.Warehouse)
			require.Equal(t, Probed{Rounds: probeRounds}, l.Probe(t.Context()))
			require.Equal(t, before, everythingBelow(t, opt.Warehouse))
			spaces, err := l.Namespaces(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"siglake"}, spaces)
		})
	}
}

func TestProbe_read_only(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lakeAt(t, dir, hooks{})
	l := lakeOf(t, Options{Catalog: "sqlite://" + filepath.Join(dir, "catalog.db"), ReadOnly: true}, hooks{})
	got := l.Probe(t.Context())
	require.ErrorIs(t, got.Warehouse, ErrReadOnly)
	require.ErrorIs(t, got.Table, ErrReadOnly)
	require.ErrorIs(t, got.Compare, ErrReadOnly)
}

// careless is a catalog that looks at no requirement, and does one commit after the other.
type careless struct {
	iceCatalog

	turn chan struct{}
}

func (c careless) CommitTable(ctx context.Context, id table.Identifier, r []table.Requirement, u []table.Update) (table.Metadata, string, error) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if len(r) == 1 { // the table is made
		return c.iceCatalog.CommitTable(ctx, id, r, u)
	}
	return c.iceCatalog.CommitTable(ctx, id, nil, u)
}

// forgetful is a catalog that accepts what it does not do.
type forgetful struct{ iceCatalog }

func (c forgetful) CommitTable(ctx context.Context, id table.Identifier, r []table.Requirement, u []table.Update) (table.Metadata, string, error) {
	if len(r) == 1 {
		return c.iceCatalog.CommitTable(ctx, id, r, u)
	}
	return nil, "", nil
}

// deaf is a catalog that refuses every commit but those that make a table.
type deaf struct{ iceCatalog }

func (c deaf) CommitTable(ctx context.Context, id table.Identifier, r []table.Requirement, u []table.Update) (table.Metadata, string, error) {
	if len(r) == 1 {
		return c.iceCatalog.CommitTable(ctx, id, r, u)
	}
	return nil, "", errInjected
}

// keeping is a catalog that drops nothing.
type keeping struct{ iceCatalog }

func (keeping) dropTable(context.Context, table.Identifier) error { return errInjected }

// The probe tells a catalog that does not compare, one that does not commit and one that does not let go.
func TestProbe_unsound_catalogs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wrap  func(iceCatalog) iceCatalog
		check func(t *testing.T, got Probed)
	}{
		"careless": {
			func(c iceCatalog) iceCatalog { return careless{c, make(chan struct{}, 1)} },
			func(t *testing.T, got Probed) { require.ErrorIs(t, got.Compare, ErrNoCompare) },
		},
		"forgetful": {
			func(c iceCatalog) iceCatalog { return forgetful{c} },
			func(t *testing.T, got Probed) { require.ErrorIs(t, got.Compare, ErrNoCompare) },
		},
		"deaf": {
			func(c iceCatalog) iceCatalog { return deaf{c} },
			func(t *testing.T, got Probed) {
				require.ErrorIs(t, got.Compare, errInjected)
				require.NotErrorIs(t, got.Compare, ErrNoCompare)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := lakeAt(t, dir, hooks{wrap: tc.wrap})
			got := l.Probe(t.Context())
			require.NoError(t, got.Warehouse)
			require.NoError(t, got.Table)
			require.NoError(t, got.Left)
			require.Zero(t, got.Rounds)
			tc.check(t, got)
			require.Equal(t, []string{""}, everythingBelow(t, filepath.Join(dir, "warehouse")))
		})
	}
}

// What a probe could not remove is told, and the next one removes it when it is old.
func TestProbe_left_behind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := lakeAt(t, dir, hooks{wrap: func(c iceCatalog) iceCatalog { return keeping{c} }}).Probe(t.Context())
	require.ErrorContains(t, kept.Left, "drop table "+ProbePrefix)
	l := lakeAt(t, dir, hooks{})
	require.Equal(t, Probed{Rounds: probeRounds}, l.Probe(t.Context()))
	spaces, err := l.Namespaces(t.Context())
	require.NoError(t, err)
	require.Len(t, spaces, 1, "it may be of a probe that runs")
	l.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	require.Equal(t, Probed{Rounds: probeRounds}, l.Probe(t.Context()))
	spaces, err = l.Namespaces(t.Context())
	require.NoError(t, err)
	require.Empty(t, spaces)
	require.Equal(t, []string{""}, everythingBelow(t, filepath.Join(dir, "warehouse")))
}

// A warehouse that may not be written to is told, and nothing stays in the catalog.
func TestProbe_warehouse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lakeAt(t, dir, hooks{})
	home := filepath.Join(dir, "warehouse")
	require.NoError(t, os.RemoveAll(home))
	require.NoError(t, os.WriteFile(home, nil, 0o600))
	got := l.Probe(t.Context())
	require.ErrorContains(t, got.Warehouse, "write file://"+home)
	require.Error(t, got.Table)
	require.ErrorContains(t, got.Compare, "no table to try it on")
	spaces, err := l.Namespaces(t.Context())
	require.NoError(t, err)
	require.Empty(t, spaces)
}

// A probe that is interrupted removes what it has made.
func TestProbe_interrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	l := lakeAt(t, dir, hooks{wrap: func(c iceCatalog) iceCatalog {
		return &faultyCatalog{iceCatalog: c, onLoad: func(n int) error {
			if n == 2 { // made and loaded; the first round begins
				cancel()
			}
			return nil
		}}
	}})
	got := l.Probe(ctx)
	require.ErrorIs(t, got.Compare, context.Canceled)
	require.NoError(t, got.Left)
	spaces, err := l.Namespaces(t.Context())
	require.NoError(t, err)
	require.Empty(t, spaces)
	require.Equal(t, []string{""}, everythingBelow(t, filepath.Join(dir, "warehouse")))
	_, _, err = l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
	require.NoError(t, err)
}
