package drain

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// What is deleted from the mirror is deleted by this: rows of the table that the lane is bound to, in a state that is not
// older than what was committed to it.
func TestCommitted(t *testing.T) {
	t.Parallel()
	w, l := realWorld(t)
	name := w.seal(spec{})
	id, _, err := segment.ParseName(name)
	require.NoError(t, err)
	other := w.namer("events").Next(batchTime())
	opt := w.options()
	opt.OpenLake, opt.Lake = nil, l
	_, err = Once(t.Context(), opt)
	require.NoError(t, err)
	ask := func(index string) (map[segment.ID]int64, error) {
		return Committed(t.Context(), l, w.root, "default", index, []segment.ID{id, other})
	}
	found, err := ask("events")
	require.NoError(t, err)
	require.Equal(t, map[segment.ID]int64{id: 3}, found)
	found, err = ask("spans")
	require.NoError(t, err)
	require.Empty(t, found, "no table")

	lane := w.lane("events")
	head, ok, err := lane.Head()
	require.NoError(t, err)
	require.True(t, ok)
	later := head
	later.Sequence++
	later.Metadata = "00099-later.metadata.json"
	require.NoError(t, lane.WriteHead(later))
	_, err = ask("events")
	var back *lake.GoneBackError
	require.ErrorAs(t, err, &back)
	require.NoError(t, lane.WriteHead(segment.Head{Table: uuid.New(), Sequence: 1, Metadata: head.Metadata}))
	_, err = ask("events")
	var incarnation *lake.IncarnationError
	require.ErrorAs(t, err, &incarnation)
	require.NoError(t, lane.WriteHead(head))
	_, err = ask("events")
	require.NoError(t, err)
}
