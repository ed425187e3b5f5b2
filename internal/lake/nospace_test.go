package lake

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A full disk is told at once, not after as many attempts as a catalog gets that does not answer. When there is room again the
// next commit goes through, and each row is there once.
func TestCommit_tells_a_full_disk_at_the_first_try(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(t *testing.T, l *Lake, d *spyDisk) (empty func()){
		"the metadata file": func(_ *testing.T, _ *Lake, d *spyDisk) func() {
			d.fail = func(op, path string) error {
				if op == "create" && strings.Contains(filepath.Base(path), metadataSuffix) {
					return syscall.ENOSPC
				}
				return nil
			}
			return func() { d.fail = nil }
		},
		"a quota, met when it is written": func(_ *testing.T, _ *Lake, d *spyDisk) func() {
			d.fail = func(op, path string) error {
				if op == "sync" && strings.Contains(filepath.Base(path), metadataSuffix) {
					return syscall.EDQUOT
				}
				return nil
			}
			return func() { d.fail = nil }
		},
		"the catalog file": func(t *testing.T, l *Lake, _ *spyDisk) func() {
			t.Helper()
			l.db.SetMaxOpenConns(1) // the limit is the connection's
			_, err := l.db.ExecContext(t.Context(), "CREATE TABLE filler (b BLOB); PRAGMA max_page_count = 1; CREATE TRIGGER fill AFTER UPDATE ON iceberg_tables BEGIN INSERT INTO filler VALUES (zeroblob(1000000)); END")
			require.NoError(t, err)
			return func() {
				_, err := l.db.ExecContext(t.Context(), "PRAGMA max_page_count = 1000000")
				require.NoError(t, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &spyDisk{}
			dir := t.TempDir()
			warehouse := filepath.Join(dir, "warehouse", "siglake.db", "events")
			l := lakeAt(t, dir, spied(t, d))
			waits := 0
			l.wait = func(context.Context, time.Duration) error { waits++; return nil }
			tbl := events(t, l)
			first := newSegment(t, 1, 3)
			_, err := tbl.Commit(t.Context(), []Segment{first})
			require.NoError(t, err)

			files := func() []string {
				return append(filesUnder(t, filepath.Join(warehouse, "data"), ".parquet"), filesUnder(t, warehouse, metadataSuffix)...)
			}
			before := files()
			require.Len(t, before, 3)
			empty := fill(t, l, d)
			seg := newSegment(t, 2, 4)
			out, err := tbl.Commit(t.Context(), []Segment{seg})
			require.True(t, noSpace(err), "%v", err)
			require.Zero(t, waits, "%v", err)
			require.Zero(t, out.RowsWritten)
			if name != "the catalog file" { // which was asked, so that its answer has to be looked for
				require.Equal(t, before, files(), "each try would take more of the room that is missing")
			}

			empty()
			_, err = tbl.Commit(t.Context(), []Segment{seg})
			require.NoError(t, err)
			requireExactly(t, l, first, seg)
		})
	}
}
