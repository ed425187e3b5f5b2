package wal

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// T-05: the open name of a segment that was committed long ago is back, as the same file or as the shorter copy of it
// that a crash kept. It is dropped, and what is committed stays as it is. ONE-1.
func TestT05_an_open_name_that_came_back(t *testing.T) {
	t.Parallel()
	whole, ends := partial(t, uuid.Nil)
	for name, back := range map[string]func(t *testing.T, committed, active string){
		"same file": func(t *testing.T, committed, active string) {
			t.Helper()
			require.NoError(t, os.Link(committed, active))
		},
		"shorter copy": func(t *testing.T, _, active string) {
			t.Helper()
			require.NoError(t, os.WriteFile(active, whole[:ends[3]], 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, id := t.TempDir(), someIDs(1)[0]
			leave(t, dir, "t", map[segment.ID][]byte{id: whole})
			closeLog(t, open(t, options(vfs.OS(), dir)))
			root, err := segment.Open(vfs.OS(), dir)
			require.NoError(t, err)
			lane, err := root.Lane("t", "events")
			require.NoError(t, err)
			_, err = lane.Move(segment.Sealed, segment.Committed, []string{id.FileName()})
			require.NoError(t, err)
			back(t, lane.Path(segment.Committed, id.FileName()), lane.Path(segment.Active, id.PartialName()))
			closeLog(t, open(t, options(vfs.OS(), dir)))
			segs := scan(t, vfs.OS(), dir)
			require.Len(t, segs, 1)
			require.Equal(t, segment.Committed, segs[0].state)
			require.Equal(t, []int64{1, 2, 3, 4, 5}, segs[0].ids)
			require.Empty(t, names(t, vfs.OS(), dir, segment.Poison))
		})
	}
}

// T-07: whoever holds the lock recovers what another process left, whatever that one was called, with no wait. ACK-1.
func TestT07_a_replacement_adopts_at_once(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	opt := options(disk, "/wal")
	opt.Holder = "pod-a"
	l := open(t, opt)
	_, err := l.Append(t.Context(), request(t, WaitFor, 1))
	require.NoError(t, err)
	other := request(t, WaitFor, 2)
	other.Tenant = "u"
	_, err = l.Append(t.Context(), other)
	require.NoError(t, err)
	disk.PowerOff()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, l.Close(done))

	killed := disk.Crash(simfs.KeepAll, rand.New(rand.NewPCG(1, 1)))
	opt.FS, opt.Holder = killed, "pod-b"
	l = open(t, opt)
	require.Equal(t, []int64{1, 2}, idsIn(scan(t, killed, "/wal"), segment.Sealed))
	closeLog(t, l)
}

// B5: sealed/ is on another volume, which links and renames refuse. Rows are taken and kept, the seal says what is
// wrong, and the writer is never closed by it: when the directory is right all of it is sealed. ACK-1.
func TestB5_a_state_on_another_volume(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk := simfs.New(nil)
	l := open(t, options(disk, "/wal"))
	var mended atomic.Bool
	disk.SetHook(func(op simfs.Op) error {
		if !mended.Load() && (op.Kind == simfs.Link || op.Kind == simfs.Rename) {
			return syscall.EXDEV
		}
		return nil
	})
	for id := range int64(5) {
		_, err := l.Append(ctx, request(t, WaitFor, id+1))
		require.NoError(t, err)
		require.ErrorIs(t, l.Seal(ctx, "t", "events"), syscall.EXDEV)
	}
	require.Empty(t, names(t, disk, "/wal", segment.Sealed))
	require.Len(t, names(t, disk, "/wal", segment.Active), 5)
	mended.Store(true)
	_, err := l.Append(ctx, request(t, WaitFor, 6))
	require.NoError(t, err)
	closeLog(t, l)
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6}, idsIn(scan(t, disk, "/wal"), segment.Sealed))
}

// slowDisk takes a while for each sync.
type slowDisk struct {
	vfs.FS
	pause time.Duration
}

func (d slowDisk) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return slowFile{f, d.pause}, err
}

func (d slowDisk) SyncDir(dir string) error {
	time.Sleep(d.pause)
	return d.FS.SyncDir(dir)
}

type slowFile struct {
	vfs.File
	pause time.Duration
}

func (f slowFile) Sync() error {
	time.Sleep(f.pause)
	return f.File.Sync()
}

// C3: syncs of 100 ms under ten times the load that the limit admits. Requests wait or are refused; what was
// acknowledged is stored, and nothing else. The clock is that of a synctest bubble. ACK-1.
func TestC3_a_slow_disk(t *testing.T) {
	t.Parallel()
	const clients, requests, pause = 80, 20, 100 * time.Millisecond
	for name, room := range map[string]int64{"with room it waits": clients, "without it refuses": clients / 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				disk := simfs.New(nil)
				opt := options(slowDisk{disk, pause}, "/wal")
				opt.MaxEvents = 200
				opt.MaxInFlight = room * int64(len(body(t, testSchemas[0], 1))+8)
				l := open(t, opt)
				acked := make([][]int64, clients)
				var refused atomic.Int64
				each(clients, func(c int) {
					for i := range requests {
						id := int64(c*requests + i + 1)
						begin := time.Now()
						if _, err := l.Append(t.Context(), request(t, WaitFor, id)); err != nil {
							if !errors.Is(err, ErrFull) {
								t.Error(err)
							}
							refused.Add(1)
							time.Sleep(pause / 10) // a client that comes again soon
							continue
						}
						if took := time.Since(begin); took < pause {
							t.Errorf("acknowledged after %s, without a sync", took)
						}
						acked[c] = append(acked[c], id)
					}
				})
				closeLog(t, l)
				want := slices.Sorted(slices.Values(slices.Concat(acked...)))
				got := idsIn(scan(t, disk, "/wal"), segment.Sealed)
				slices.Sort(got)
				require.Equal(t, want, got, "stored = acknowledged")
				require.EqualValues(t, clients*requests, int64(len(want))+refused.Load())
				if room == clients {
					require.Zero(t, refused.Load())
				} else {
					require.Positive(t, refused.Load())
					require.NotEmpty(t, want)
				}
			})
		})
	}
}
