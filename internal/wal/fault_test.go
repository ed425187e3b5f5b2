package wal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// failNext fails the next operation of a kind, once.
func failNext(disk *simfs.FS, kind simfs.Kind, err error) {
	hook, _ := simfs.FailAt(0, kind.Is, err)
	disk.SetHook(hook)
}

// Requests that share a group end each on their own: what reached the file whole before the disk was full is
// acknowledged and kept, the rest is refused, and the next request goes on behind the last whole one (T-02, T-20).
func TestShortWrite_T02_T20(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	l := open(t, options(disk, "/wal"))
	_, err := l.Append(t.Context(), request(t, WaitFor, 1))
	require.NoError(t, err)
	group := []Request{request(t, WaitFor, 2), request(t, Auto, 3), request(t, WaitFor, 4), request(t, Auto, 5)}
	cut := int64(len(group[0].Body)+len(group[1].Body)) + 100
	failNext(disk, simfs.Writev, &simfs.ShortWrite{Bytes: cut, Err: syscall.ENOSPC})
	receipts, errs := together(t, l, group...)
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	require.ErrorIs(t, errs[2], syscall.ENOSPC)
	require.ErrorIs(t, errs[3], syscall.ENOSPC)
	require.EqualValues(t, 2, receipts[1].First)
	got, err := l.Append(t.Context(), request(t, WaitFor, 6))
	require.NoError(t, err)
	require.Equal(t, Receipt{Segment: receipts[0].Segment, First: 3, End: 4}, got)
	closeLog(t, l)
	segs := scan(t, disk, "/wal")
	require.Len(t, segs, 1)
	require.Equal(t, []int64{1, 2, 3, 6}, segs[0].ids)
}

// After a failed sync the whole group is refused, nothing more is acknowledged on that file, its rows from before
// are sealed without the refused ones, and the lane goes on in a new segment (T-03).
func TestFailedSync_T03(t *testing.T) {
	t.Parallel()
	for _, kind := range []simfs.Kind{simfs.Sync, simfs.SyncDir} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			disk := simfs.New(nil)
			l := open(t, options(disk, "/wal"))
			before := WaitFor
			if kind == simfs.SyncDir {
				// The first answer under wait_for is what syncs the name.
				require.NoError(t, l.Seal(ctx, "t", "events"))
				before = Auto
			}
			first, err := l.Append(ctx, request(t, before, 1))
			require.NoError(t, err)
			failNext(disk, kind, syscall.EIO)
			_, errs := together(t, l, request(t, WaitFor, 2), request(t, Auto, 3))
			require.ErrorIs(t, errs[0], syscall.EIO)
			require.ErrorIs(t, errs[1], syscall.EIO)
			next, err := l.Append(ctx, request(t, WaitFor, 4))
			require.NoError(t, err)
			require.Equal(t, first.Segment.Seq+1, next.Segment.Seq)
			closeLog(t, l)
			segs := scan(t, disk, "/wal")
			require.Len(t, segs, 2)
			require.Equal(t, []int64{1}, segs[0].ids)
			require.Equal(t, []int64{4}, segs[1].ids)
			require.Equal(t, segment.Sealed, segs[0].state)
			require.False(t, segs[0].header.Partial)
			require.Empty(t, names(t, disk, "/wal", segment.Active))
		})
	}
}

// A refused sync or truncate, and a power cut at every operation after it: what was acknowledged before is kept
// while the segment is copied to a fresh file. ACK-1.
func TestCrash_while_renewing(t *testing.T) {
	t.Parallel()
	for _, policy := range simfs.Policies() {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			for _, kind := range []simfs.Kind{simfs.Sync, simfs.SyncDir, simfs.Truncate} {
				fired := true
				for n := 0; fired; n++ {
					fired = renewAndCrash(t, policy, kind, n)
				}
			}
		})
	}
}

func renewAndCrash(t *testing.T, policy simfs.Policy, kind simfs.Kind, n int) bool {
	t.Helper()
	disk := simfs.New(nil)
	l := open(t, options(disk, "/wal"))
	h := &history{tb: t, l: l}
	h.one(Auto)
	if kind != simfs.SyncDir {
		h.one(WaitFor)
		h.one(Auto)
	}
	hook, fired := faultThenCut(kind, n)
	disk.SetHook(hook)
	h.one(WaitFor)
	require.Error(t, h.sent[len(h.sent)-1].err)
	_ = l.Seal(t.Context(), "t", "events")
	h.one(WaitFor)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_ = l.Close(done)
	after := disk.Crash(policy, rand.New(rand.NewPCG(uint64(n), uint64(policy))))
	require.NoError(t, recoverOnce(t, after))
	h.verify(verdict{t, fmt.Sprintf("n=%d %s %s", n, policy, kind)}, after, policy)
	return fired()
}

// faultThenCut fails the next operation of a kind, a truncate by way of a short write, and switches the machine
// off before the n-th change after that.
func faultThenCut(kind simfs.Kind, n int) (hook simfs.Hook, fired func() bool) {
	fault, faulted := simfs.FailAt(0, kind.Is, syscall.EIO)
	short, _ := simfs.FailAt(0, simfs.Writev.Is, &simfs.ShortWrite{Bytes: 600, Err: syscall.ENOSPC})
	cut, fired := simfs.CutAt(n)
	return func(op simfs.Op) error {
		if faulted() {
			return cut(op)
		}
		if kind == simfs.Truncate {
			if err := short(op); err != nil {
				return err
			}
		}
		return fault(op)
	}, fired
}

// forgetful is a disk whose page cache drops what a failed sync could not write: reads then give zeros.
type forgetful struct{ vfs.FS }

func (f forgetful) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	return &forgetfulFile{File: file}, err
}

type forgetfulFile struct {
	vfs.File
	synced int64
	lost   bool
}

func (f *forgetfulFile) Sync() error {
	err := f.File.Sync()
	if err != nil {
		f.lost = true
		return err
	}
	info, err := f.Stat()
	f.synced = info.Size
	return err
}

func (f *forgetfulFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if f.lost && off+int64(n) > f.synced {
		clear(p[max(f.synced-off, 0):n])
	}
	return n, err
}

// Rows under auto that a failed sync took are not replaced by what is read back in their place: the segment ends
// before them, and the loss is counted. What was synced is all there. ACK-1, ACK-2, LOUD-1.
func TestFailedSync_takes_unsynced_rows(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk := simfs.New(nil)
	reader := metric.NewManualReader()
	opt := options(forgetful{disk}, "/wal")
	opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	l := open(t, opt)
	_, err := l.Append(ctx, request(t, WaitFor, 1))
	require.NoError(t, err)
	_, err = l.Append(ctx, request(t, Auto, 2, 3))
	require.NoError(t, err)
	failNext(disk, simfs.Sync, syscall.EIO)
	_, err = l.Append(ctx, request(t, WaitFor, 4))
	require.ErrorIs(t, err, syscall.EIO)
	require.NoError(t, l.Seal(ctx, "t", "events"))
	require.EqualValues(t, 2, sums(t, reader)["siglake_wal_unsynced_rows_lost_total"])
	closeLog(t, l)
	segs := scan(t, disk, "/wal")
	require.Len(t, segs, 1)
	require.Equal(t, []int64{1}, segs[0].ids)
}

// A disk that refuses every seal takes no acknowledged row and stalls no answer until the bound; then requests
// are refused with the disk's own error, and all is well when the disk is (T-04).
func TestSealRefused_T04(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk := simfs.New(nil)
	opt := options(disk, "/wal")
	opt.MaxEvents = 1
	l := open(t, opt)
	var well atomic.Bool
	disk.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Link && !well.Load() {
			return syscall.EIO
		}
		return nil
	})
	rows := int64(0)
	for {
		if _, err := l.Append(ctx, request(t, WaitFor, rows+1)); err != nil {
			require.ErrorIs(t, err, syscall.EIO)
			break
		}
		rows++
		require.LessOrEqual(t, rows, int64(maxUnsealed))
	}
	require.EqualValues(t, maxUnsealed, rows)
	require.ErrorIs(t, l.Seal(ctx, "t", "events"), syscall.EIO)
	require.Empty(t, names(t, disk, "/wal", segment.Sealed))
	well.Store(true)
	require.Eventually(t, func() bool {
		_, err := l.Append(ctx, request(t, WaitFor, rows+1))
		return err == nil
	}, time.Minute, time.Millisecond)
	closeLog(t, l)
	require.Len(t, idsIn(scan(t, disk, "/wal"), segment.Sealed), maxUnsealed+1)
}

// Close with a disk that seals nothing ends, says what it left, and the next Open finds it. ACK-1.
func TestCloseRefused(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	l := open(t, options(disk, "/wal"))
	_, err := l.Append(t.Context(), request(t, WaitFor, 1))
	require.NoError(t, err)
	disk.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Link {
			return syscall.EIO
		}
		return nil
	})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	err = l.Close(done)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, "1 segments of t/events stay in active/")
	disk.SetHook(nil)
	closeLog(t, open(t, options(disk, "/wal")))
	require.Equal(t, []int64{1}, idsIn(scan(t, disk, "/wal"), segment.Sealed))
}

// A process that saw a sync refused ends, and the next finds rows that read well and that no sync makes durable any
// more. What its recovery shows is written again, so the power cut that follows takes nothing back. SEE-1.
func TestRecover_after_a_refused_sync(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	l := open(t, options(disk, "/wal"))
	_, err := l.Append(t.Context(), request(t, WaitFor, 1))
	require.NoError(t, err)
	_, err = l.Append(t.Context(), request(t, Auto, 2))
	require.NoError(t, err)
	disk.SetHook(func(op simfs.Op) error {
		if op.Kind == simfs.Sync {
			return syscall.EIO
		}
		return nil
	})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Close(done), syscall.EIO)
	disk.SetHook(nil)
	closeLog(t, open(t, options(disk, "/wal")))
	shown := scan(t, disk, "/wal")
	require.Equal(t, []int64{1, 2}, idsIn(shown, segment.Sealed))
	after := disk.Crash(simfs.KeepNone, rand.New(rand.NewPCG(1, 1)))
	closeLog(t, open(t, options(after, "/wal")))
	require.Equal(t, shown, scan(t, after, "/wal"))
}
