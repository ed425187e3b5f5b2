package accounted

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// corpse is a data directory as a dead collector may leave it.
type corpse struct {
	t    *testing.T
	data string
}

func newCorpse(t *testing.T) corpse {
	t.Helper()
	return corpse{t, t.TempDir()}
}

func (c corpse) path(state, name string) string {
	dir := filepath.Join(c.data, "wal", "default", "events", state)
	require.NoError(c.t, os.MkdirAll(dir, 0o750))
	return filepath.Join(dir, name)
}

// put writes a segment: flags 2 = PARTIAL.
func (c corpse) put(state, name string, flags byte, body string) {
	header := make([]byte, 52)
	copy(header, "LWAL\x02")
	header[5] = flags
	require.NoError(c.t, os.WriteFile(c.path(state, name), append(header, body...), 0o600))
}

func (c corpse) link(from, fromName, to, toName string) {
	require.NoError(c.t, os.Link(c.path(from, fromName), c.path(to, toName)))
}

func (c corpse) parquet(name string) string {
	file := filepath.Join(c.data, "warehouse", name)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(c.t, os.WriteFile(file, nil, 0o600))
	return file
}

const eos = "\xff\xff\xff\xff\x00\x00\x00\x00"

func TestClassifyTellsWhatAKillHit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		disk      func(corpse)
		committed bool
		want      []string
	}{
		{"nothing under way", func(c corpse) { c.put("active", "a.arrow.partial", 2, "xx r-000000000005 xx") }, false, []string{elsewhere}},
		{"a record without its answer", func(c corpse) { c.put("active", "a.arrow.partial", 2, "r-000000000005r-000000000015") }, false, []string{inAppend}},
		{"a number cut off", func(c corpse) { c.put("active", "a.arrow.partial", 2, "r-0000000000") }, false, []string{elsewhere}},
		{"an ended stream", func(c corpse) { c.put("active", "a.arrow.partial", 2, eos) }, false, []string{inSeal}},
		{"a final header", func(c corpse) { c.put("active", "a.arrow.partial", 0, "x") }, false, []string{inSeal}},
		{"a partial between two names", func(c corpse) {
			c.put("active", "a.arrow.partial", 2, "x")
			c.link("active", "a.arrow.partial", "sealed", "a.arrow")
		}, false, []string{inRecovery}},
		{"a claim", func(c corpse) {
			c.put("sealed", "a.arrow", 0, "x")
			c.link("sealed", "a.arrow", "processing", "a.arrow")
		}, false, []string{inClaim}},
		{"claimed", func(c corpse) { c.put("processing", "a.arrow", 0, "x") }, false, []string{betweenCommits}},
		{"files without a commit", func(c corpse) {
			c.put("processing", "a.arrow", 0, "x")
			c.parquet("new.parquet")
		}, false, []string{beforeCatalog}},
		{"files of an earlier life", func(c corpse) {
			c.put("processing", "a.arrow", 0, "x")
			c.parquet("known.parquet")
		}, false, []string{betweenCommits}},
		{"a commit without a mark", func(c corpse) { c.put("processing", "a.arrow", 0, "x") }, true, []string{afterCatalog}},
		{"a mark", func(c corpse) {
			c.put("processing", "a.arrow", 0, "x")
			c.link("processing", "a.arrow", "committed", "a.arrow")
		}, true, []string{inMark}},
		{"orphans on their way", func(c corpse) {
			c.put("processing", "a.arrow", 0, "x")
			c.link("processing", "a.arrow", "orphans", "a.arrow")
		}, false, []string{inRecovery, betweenCommits}},
	} {
		c := newCorpse(t)
		known := map[string]bool{filepath.Join(c.data, "warehouse", "known.parquet"): true}
		require.NoError(t, os.MkdirAll(filepath.Join(c.data, "warehouse"), 0o750))
		tc.disk(c)
		b, err := autopsy(c.data, "r")
		require.NoError(t, err)
		got := b.classify(func(n uint64) bool { return n < 10 }, func(string) bool { return tc.committed }, nil, known)
		require.Equal(t, tc.want, got, tc.name)
	}
}
