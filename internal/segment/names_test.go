package segment_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// docs/configuration.md lists the names that no index and no tenant may have.
func TestReservedNames_document(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	require.NoError(t, err)
	list := regexp.MustCompile(`Refused are also the names that mean something in the log: ([^.]+)\.`).FindSubmatch(b)
	require.NotNil(t, list)
	var names []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(list[1], -1) {
		names = append(names, string(m[1]))
	}
	for _, name := range names {
		require.ErrorIs(t, segment.CheckIndex(name), segment.ErrReservedName, name)
		require.ErrorIs(t, segment.CheckTenant(name), segment.ErrReservedName, name)
	}
	for _, st := range []segment.State{
		segment.Active, segment.Sealed, segment.Processing, segment.Committed, segment.Orphans, segment.Poison, segment.Stale, segment.MirrorPending,
	} {
		require.True(t, slices.Contains(names, string(st)), st)
	}
	require.Len(t, names, 13)
}
