package lake

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// forget makes a lake read metadata files anew.
func forget(l *Lake) {
	if c, ok := l.opened.cat.(sqlCatalog); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		clear(c.known)
	}
}

// requireRemembered compares what the lake remembers of the events table with its metadata file.
func requireRemembered(tb testing.TB, l *Lake) {
	tb.Helper()
	remembered := loaded(tb, l)
	stored, err := l.stored(context.Background(), remembered.Identifier(), remembered.MetadataLocation())
	require.NoError(tb, err)
	want, err := json.Marshal(stored.Metadata())
	require.NoError(tb, err)
	have, err := json.Marshal(remembered.Metadata())
	require.NoError(tb, err)
	require.JSONEq(tb, string(want), string(have))
	require.True(tb, remembered.Metadata().Equals(stored.Metadata()))
}

// What is remembered of a table is what a reader of its metadata file sees, whatever was committed, wherever it lies.
func TestSQLCommit_remembers_what_it_wrote(t *testing.T) {
	t.Parallel()
	for _, p := range places()[:3] {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			l := lakeOf(t, p.opt(t), hooks{})
			tbl := events(t, l)
			requireRemembered(t, l)
			setProperty(t, l, "events", table.ManifestMinMergeCountKey, "3")
			var segs []Segment
			for i := range 8 {
				segs = append(segs, newSegment(t, uint64(i), 2))
				_, err := tbl.Commit(t.Context(), segs[i:])
				require.NoError(t, err)
				requireRemembered(t, l)
			}
			_, err := tbl.Expire(t.Context(), 3)
			require.NoError(t, err)
			requireRemembered(t, l)
			l.promote = promotions(t, otelarrow.Promotion{Attribute: "http.route"})
			segs = append(segs, newSegment(t, 9, 2))
			_, err = tbl.Commit(t.Context(), segs[8:])
			require.NoError(t, err)
			requireRemembered(t, l)
			requireExactly(t, l, segs...)
		})
	}
}

// A change by another process, or an earlier state that comes back, is seen at once.
func TestSQLCommit_sees_what_others_do(t *testing.T) {
	t.Parallel()
	for _, p := range places()[:2] {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			opt := p.opt(t)
			l, other := lakeOf(t, opt, hooks{}), lakeOf(t, opt, hooks{})
			mine, theirs := events(t, l), events(t, other)
			var segs []Segment
			for i := range 6 {
				segs = append(segs, newSegment(t, uint64(i), 2))
				_, err := []*Table{mine, theirs}[i%2].Commit(t.Context(), segs[i:])
				require.NoError(t, err)
				requireRemembered(t, l)
				requireRemembered(t, other)
			}
			requireExactly(t, l, segs...)
			before := loaded(t, l).MetadataLocation()
			out, err := mine.Commit(t.Context(), segs) // what the other committed is known
			require.NoError(t, err)
			require.Equal(t, committed(segs...), out.Committed)
			require.Equal(t, before, loaded(t, l).MetadataLocation())

			// A stale transaction is refused whoever remembers what.
			stale := loaded(t, l)
			setProperty(t, other, "events", "n", "1")
			_, _, err = l.cat.CommitTable(t.Context(), stale.Identifier(), nil, []table.Update{
				table.NewSetPropertiesUpdate(iceberg.Properties{"m": "1"}),
			})
			require.NoError(t, err, "nothing was required, so the newest state is what it is made from")
			require.Equal(t, "1", metaOf(t, l).Properties()["n"])
			_, err = mine.Commit(t.Context(), []Segment{newSegment(t, 7, 1)})
			require.NoError(t, err)
			_, _, err = l.cat.CommitTable(t.Context(), stale.Identifier(), []table.Requirement{
				table.AssertRefSnapshotID(table.MainBranch, &stale.Metadata().CurrentSnapshot().SnapshotID),
			}, []table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{"m": "2"})})
			require.ErrorContains(t, err, "requirement failed")

			_, err = other.db.ExecContext(t.Context(), "UPDATE iceberg_tables SET metadata_location = '"+before+"'")
			require.NoError(t, err)
			var back *GoneBackError
			_, err = mine.Commit(t.Context(), []Segment{newSegment(t, 8, 1)})
			require.ErrorAs(t, err, &back)
			_, err = other.db.ExecContext(t.Context(), "DELETE FROM iceberg_tables")
			require.NoError(t, err)
			_, err = mine.Commit(t.Context(), []Segment{newSegment(t, 9, 1)})
			require.ErrorIs(t, err, ErrNoTable)
		})
	}
}

// Between the look at the place and the change of it another commits: that is a conflict, and nothing is written over.
func TestSQLCommit_conflict_in_the_last_moment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, other := lakeAt(t, dir, hooks{}), lakeAt(t, dir, hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 2)
	id := tbl.id
	c, ok := l.opened.cat.(sqlCatalog)
	require.True(t, ok)
	_, err := l.cat.LoadTable(t.Context(), id)
	require.NoError(t, err)
	meddle := requirement{table.AssertTableUUID(tbl.uuid), func() { setProperty(t, other, "events", "n", "1") }}
	_, _, err = c.CommitTable(l.io.with(t.Context()), id, []table.Requirement{meddle}, []table.Update{
		table.NewSetPropertiesUpdate(iceberg.Properties{"m": "1"}),
	})
	require.ErrorIs(t, err, table.ErrCommitFailed)
	require.Equal(t, "1", metaOf(t, l).Properties()["n"])
	require.Empty(t, metaOf(t, l).Properties()["m"])
}

// requirement runs something while it is checked.
type requirement struct {
	table.Requirement
	first func()
}

func (r requirement) Validate(meta table.Metadata) error {
	r.first()
	return r.Requirement.Validate(meta)
}

// A metadata file that cannot be written is no commit.
func TestSQLCommit_metadata_cannot_be_written(t *testing.T) {
	t.Parallel()
	l := lakeAt(t, t.TempDir(), hooks{})
	tbl := events(t, l)
	commitEach(t, tbl, 1)
	before := loaded(t, l).MetadataLocation()
	_, _, err := l.cat.CommitTable(t.Context(), tbl.id, nil, []table.Update{
		table.NewSetPropertiesUpdate(iceberg.Properties{table.MetadataCompressionKey: "zstd"}),
	})
	require.ErrorContains(t, err, "neither none nor gzip")
	require.Equal(t, before, loaded(t, l).MetadataLocation())
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, _, err = l.cat.CommitTable(canceled, tbl.id, nil, []table.Update{
		table.NewSetPropertiesUpdate(iceberg.Properties{"n": "1"}),
	})
	require.ErrorContains(t, err, "enough")
	require.Equal(t, before, loaded(t, l).MetadataLocation())
}
