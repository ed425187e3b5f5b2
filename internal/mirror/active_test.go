package mirror_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// The beginning of an open segment is copied as it grows, behind a PARTIAL header, not again while it does not, and is deleted
// once the whole one is confirmed.
func TestActive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.opt.ActiveInterval = 10 * time.Second
		r.start()
		id := r.append(2).Segment
		require.Empty(t, r.store.Objects()[activeKey(id)])
		settled(11 * time.Second)
		body := r.store.Objects()[activeKey(id)]
		require.Equal(t, []int64{1, 2}, rows(t, body))
		head, err := frame.ParseHeader(body)
		require.NoError(t, err)
		require.True(t, head.Partial)
		settled(30 * time.Second)
		require.EqualValues(t, 1, r.counter("active_uploads_total"), "nothing has come since")
		r.append(1)
		settled(10 * time.Second)
		require.Equal(t, []int64{1, 2, 3}, rows(t, r.store.Objects()[activeKey(id)]))
		require.NoError(t, r.log.Seal(t.Context(), "t", "events"))
		settled(time.Second)
		require.Equal(t, []int64{1, 2, 3}, rows(t, r.store.Objects()[key(id)]))
		require.NotContains(t, r.store.Objects(), activeKey(id))
		require.Zero(t, r.stop(time.Second))
	})
}

// Open segments looked through in the middle of a confirmation do not have the copy be forgotten: it goes without a sweep.
func TestActive_looked_at_while_confirmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.opt.ActiveInterval, r.opt.SweepInterval = 10*time.Second, -1
		r.start()
		id := r.append(2).Segment
		settled(11 * time.Second)
		require.Contains(t, r.store.Objects(), activeKey(id))
		r.disk.SetHook(func(op simfs.Op) error {
			if op.Kind == simfs.Remove && strings.Contains(op.Name, "mirror-pending") {
				time.Sleep(11 * time.Second) // confirmed, the pin not removed yet
			}
			return nil
		})
		require.NoError(t, r.log.Seal(t.Context(), "t", "events"))
		settled(30 * time.Second)
		require.Contains(t, r.store.Objects(), key(id))
		require.NotContains(t, r.store.Objects(), activeKey(id))
		require.Zero(t, r.stop(time.Second))
	})
}

// A store that is away costs a later copy, and nothing else. A copy whose deletion was refused goes with a later sweep; one
// of a segment that is nowhere else stays, whoever made it.
func TestActive_store_away(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.opt.ActiveInterval = 10 * time.Second
		r.start()
		settled(time.Second)
		lost := "_active/other/events/00dc6acf-ac00-780e-bfd5-681ebd65cc52-d3b18ff23a7c-1.arrow.partial"
		r.store.Set(lost, []byte("all that is left"))
		away := errors.New("503 SlowDown")
		refuse := func(kind string) {
			r.store.SetHook(func(op storetest.Op) *storetest.Fault {
				if op.Kind == kind {
					return &storetest.Fault{Err: away}
				}
				return nil
			})
		}
		refuse("replace")
		id := r.append(2).Segment
		settled(11 * time.Second)
		require.NotContains(t, r.store.Objects(), activeKey(id))
		require.EqualValues(t, 1, r.counter("failures_total", "active_upload"))
		refuse("delete")
		settled(10 * time.Second)
		require.Contains(t, r.store.Objects(), activeKey(id))
		require.NoError(t, r.log.Seal(t.Context(), "t", "events"))
		settled(time.Second)
		require.Contains(t, r.store.Objects(), activeKey(id))
		require.EqualValues(t, 1, r.counter("failures_total", "active_delete"))
		r.store.SetHook(nil)
		settled(6 * time.Minute)
		require.NotContains(t, r.store.Objects(), activeKey(id))
		require.Contains(t, r.store.Objects(), lost)
		require.Zero(t, r.stop(time.Second))
	})
}
