package drain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// LAKE-1: an orphan that the table was found to have is one of those that an older catalog may not show: it counts as what
// was committed through the lane, and is noticed.
func TestOnce_orphan_committed_then_the_catalog_goes_back(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	w.once()
	table := w.tables.get("events")
	was := table.sequence
	name := w.seal(spec{state: segment.Processing})
	id, _, err := segment.ParseName(name)
	require.NoError(t, err)
	table.rows[id.String()] = []int{1, 1, 1} // its commit landed, and the drain died before it heard of it
	table.sequence++
	w.once()
	require.Equal(t, 2, w.states("events")[segment.Committed])

	delete(table.rows, id.String())
	table.sequence = was
	w.seal(spec{})
	r := w.once()
	var back *lake.GoneBackError
	require.ErrorAs(t, r.Failures["default/events"], &back)
}
