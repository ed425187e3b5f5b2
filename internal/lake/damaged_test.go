package lake

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever meets a file of a table that is damaged or gone names it, and what helps.
func TestLake_names_the_file_that_is_damaged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		which   string
		damage  func(string) error
		listing bool // the listing of tables meets it, too
	}{
		"metadata":           {"*.metadata.json", halve, true},
		"manifest_list":      {"snap-*.avro", halve, true},
		"manifest_list_gone": {"snap-*.avro", os.Remove, true},
		"manifest":           {"*-m[0-9].avro", halve, false},
		"manifest_gone":      {"*-m[0-9].avro", os.Remove, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := events(t, lakeAt(t, dir, hooks{})).Commit(t.Context(), []Segment{newSegment(t, 1, 3)})
			require.NoError(t, err)
			files, err := filepath.Glob(filepath.Join(dir, "warehouse", "*", "*", "metadata", c.which))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			file := files[len(files)-1] // of the state that the catalog shows
			require.NoError(t, c.damage(file))
			told := func(err error) {
				require.ErrorContains(t, err, file)
				require.ErrorContains(t, err, restoreIt)
			}
			l := lakeAt(t, dir, hooks{})
			_, err = l.Plan(t.Context(), "siglake", "events")
			told(err)
			_, err = l.Tables(t.Context())
			if bad := Unreadable(err); c.listing {
				told(err)
				require.Len(t, bad, 1)
				require.Equal(t, "siglake.events", bad[0].Namespace+"."+bad[0].Name)
			} else {
				require.NoError(t, err)
			}
			if name == "metadata" {
				_, _, err = l.Ensure(t.Context(), "default", "events", 0)
			} else {
				_, err = events(t, l).Commit(t.Context(), []Segment{newSegment(t, 2, 3)})
			}
			if c.listing { // a commit that looks nothing up reads no manifest
				told(err)
			}
		})
	}
}

// halve takes the second half of a file.
func halve(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return os.Truncate(name, info.Size()/2)
}
