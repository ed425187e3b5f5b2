package mirror_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// A store that answers nothing is asked again a few times, each step for its own, and told. It ends with an error that is no
// cancellation, because nobody has cancelled anything; an object that never comes is named and the others are restored.
func TestRestore_a_silent_store(t *testing.T) {
	t.Parallel()
	store, ids := mirrored(t, 2)
	for _, tc := range []struct {
		kind, key string
		silent    int // times
		asked     int
		err       string
		failed    int
	}{
		{"list", "", 2, 3, "", 0},
		{"list", "", 99, 3, "listing: no answer in 30s, tried 3 times", 0},
		{"get", "siglake-mirror.json", 1, 2, "", 0},
		{"get", "siglake-mirror.json", 99, 3, "reading siglake-mirror.json: no answer in 30s, tried 3 times", 0},
		{"get", key(ids[0]), 1, 2, "", 0},
		{"get", key(ids[0]), 99, 5, "", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			store.SetHook(func(op storetest.Op) *storetest.Fault {
				if op.Kind != tc.kind || op.Key != tc.key {
					return nil
				}
				asked++
				return map[bool]*storetest.Fault{true: {Hang: true}}[asked <= tc.silent]
			})
			var mu sync.Mutex
			steps := map[string]bool{}
			rep, err := mirror.Restore(t.Context(), mirror.RestoreOptions{
				FS: simfs.New(nil), Dir: rootDir, Store: store, Concurrency: 1,
				Step: func(step string) {
					mu.Lock()
					defer mu.Unlock()
					steps[step] = true
				},
			})
			require.Equal(t, tc.asked, asked)
			require.True(t, steps["listing"])
			if tc.err != "" {
				_, ok := errors.AsType[*mirror.StoreError](err)
				require.True(t, ok, "%v", err)
				require.NotErrorIs(t, err, context.Canceled)
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.True(t, steps["reading "+key(ids[0])])
			require.Equal(t, [2]int{2 - tc.failed, tc.failed}, [2]int{rep.Lanes[0].Restored, rep.Lanes[0].Failed})
			if tc.failed > 0 {
				require.Contains(t, rep.Failed[0].Reason, "no answer in 30s")
			}
		})
	}
}
