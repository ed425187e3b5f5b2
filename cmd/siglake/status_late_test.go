//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// A manifest is gone: the listing of tables does not meet it, and a segment that has to be looked up waits for it. Status says why
// once the segment is late, and nothing while the table is whole.
func TestStatus_late_for_a_manifest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("default", "events", 3)
	s.ok("drain", "--once")
	s.write("default", "events", 2)
	files, err := filepath.Glob(filepath.Join(s.dir, "warehouse", "siglake.db", "events", "metadata", "*-m[0-9].avro"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	const why = "1 segment of default/events waits until the table can be read"
	aged := func(age time.Duration) string {
		at := testNow.Add(-age)
		require.NoError(t, os.Chtimes(s.lane("default", "events").Path(segment.Sealed, s.names(segment.Sealed)[0]), at, at))
		return s.ok("status")
	}
	require.NotContains(t, aged(time.Hour), why)
	require.NoError(t, os.Rename(files[0], files[0]+".away"))
	require.NotContains(t, aged(time.Minute), why)
	require.Regexp(t, why+`: .*`+files[0]+`.*; restore it from a copy of the warehouse`, aged(time.Hour))
}
