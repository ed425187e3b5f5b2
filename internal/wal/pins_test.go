package wal

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// away is a mirror whose store is away.
type away struct{}

func (away) Sealed(segment.Lane, segment.ID, error) {}

// Near the limits of the disk, and before a request is refused, pins of committed segments go, the oldest first and no
// more than needed. Those of segments that are not committed stay on a full disk. PIN-1.
func TestPins_go_near_the_limits(t *testing.T) {
	t.Parallel()
	const segments = 20
	for limit, full := range map[string]func(disk *simfs.FS, l *Log, size int64){
		"free-disk floor": func(disk *simfs.FS, l *Log, size int64) {
			l.space.minFree = 100 * size
			disk.SetSpace(vfs.Space{Free: 150*size - 3*size/2, Total: 1 << 40}) // two segments are missing
		},
		"max_bytes": func(_ *simfs.FS, l *Log, size int64) {
			l.space.maxBytes = (segments*size - 3*size/2) * 100 / softShare * 100 / earlyShare
		},
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				disk := simfs.New(nil)
				reader := metric.NewManualReader()
				core, logs := observer.New(zap.WarnLevel)
				opt := options(disk, "/wal")
				opt.MaxEvents, opt.Mirror, opt.Logger = 1, away{}, zap.New(core)
				opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
				l := open(t, opt)
				for id := range int64(segments) {
					_, err := l.Append(t.Context(), request(t, WaitFor, id+1))
					require.NoError(t, err)
					time.Sleep(time.Second)
				}
				synctest.Wait()
				sealed := names(t, disk, "/wal", segment.Sealed)
				require.Len(t, sealed, segments)
				require.Equal(t, sealed, names(t, disk, "/wal", segment.MirrorPending))
				root, err := segment.Open(disk, "/wal")
				require.NoError(t, err)
				lane, err := root.Lane("t", "events")
				require.NoError(t, err)
				// The drain has marked four, the last of them first.
				for i, name := range []string{sealed[3], sealed[0], sealed[1], sealed[2]} {
					f, err := disk.OpenRW(lane.Path(segment.Sealed, name))
					require.NoError(t, err)
					require.NoError(t, f.Touch(time.Now().Add(time.Duration(i-100)*time.Minute)))
					require.NoError(t, f.Close())
				}
				_, err = lane.Move(segment.Sealed, segment.Committed, sealed[:4])
				require.NoError(t, err)
				info, err := disk.Stat(lane.Path(segment.Committed, sealed[0]))
				require.NoError(t, err)
				look()
				require.Len(t, names(t, disk, "/wal", segment.MirrorPending), segments, "there is room")

				l.space.mu.Lock()
				full(disk, l, info.Size)
				l.space.mu.Unlock()
				look()
				look()
				require.Equal(t, slices.Concat(sealed[1:3], sealed[4:]), names(t, disk, "/wal", segment.MirrorPending))
				require.EqualValues(t, 2, sums(t, reader)["siglake_wal_pins_released_total"])
				require.Equal(t, 1, logs.FilterMessageSnippet("pins given up").Len())
				_, err = l.Append(t.Context(), request(t, WaitFor, 7))
				require.NoError(t, err, "nothing is refused yet")

				l.space.mu.Lock()
				l.space.minFree = 1 << 39 // at once: no pin of what is not committed goes
				l.space.mu.Unlock()
				disk.SetSpace(vfs.Space{Free: 1, Total: 1 << 40})
				look()
				left := names(t, disk, "/wal", segment.MirrorPending)
				require.Subset(t, left, sealed[4:])
				require.NotContains(t, left, sealed[1])
				closeLog(t, l)
			})
		})
	}
}
