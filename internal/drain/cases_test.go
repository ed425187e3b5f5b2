package drain

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// C2: the table is away while 10,000 segments are sealed. When it is back each is in it once. The first commit that
// succeeds only shows that it is back; from then on the oldest come first, those that were tried in vain among them.
func TestC2_a_long_outage(t *testing.T) {
	t.Parallel()
	const segments = 10_000
	w := onDisk(t)
	w.opt.Poll = time.Millisecond
	var down atomic.Bool
	down.Store(true)
	var order []string
	table := w.tables.get("events")
	table.before = func(context.Context, []lake.Segment) error {
		if down.Load() {
			return errors.New("catalog away")
		}
		return nil
	}
	table.after = func(segs []lake.Segment) error {
		for _, s := range segs {
			order = append(order, s.ID)
		}
		return nil
	}
	_, l := w.laneOf("events")
	var sealed []string
	for n := range segments {
		id, _, err := segment.ParseName(w.seal(spec{rows: 1}))
		require.NoError(t, err)
		w.age(w.lane("events").Path(segment.Sealed, id.FileName()), time.Duration(segments-n)*time.Second)
		sealed = append(sealed, id.String())
		if n%500 == 0 {
			l.atOnce()
			l.pass(t.Context(), t.Context())
			require.Error(t, l.view().err)
		}
	}
	down.Store(false)
	for w.states("events")[segment.Committed] < segments {
		l.atOnce()
		w.pass(l)
	}
	w.accounted()
	require.Len(t, order, segments)
	rest := slices.DeleteFunc(slices.Clone(sealed), func(id string) bool { return id == order[0] })
	require.Equal(t, rest, order[1:])
}
