package wal

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// sharing are options of a log that shares its root.
func sharing(fsys vfs.FS, dir, holder string) Options {
	opt := options(fsys, dir)
	opt.Shared, opt.Holder = true, holder
	return opt
}

// kill ends a process as kill -9 does: nothing of it reaches the disk any more, and its locks are free. Its
// goroutines are ended for the sake of the test.
func kill(tb testing.TB, disk *simfs.FS, l *Log) {
	tb.Helper()
	disk.PowerOff()
	done, cancel := context.WithCancel(tb.Context())
	cancel()
	_ = l.Close(done) // the machine answers nothing: there is always an error
}

// leases lists the lease files of a root.
func leases(tb testing.TB, fsys vfs.FS) []string {
	tb.Helper()
	entries, err := fsys.List("/wal/leases")
	require.NoError(tb, err)
	out := []string{}
	for _, e := range entries {
		if filepath.Ext(e.Name) == ".lock" {
			out = append(out, e.Name)
		}
	}
	return out
}

// Logs that share a root are refused by one that does not, and the other way round, each time with who holds it
// and the setting; together they run, also where several start at once on a directory that is no root yet (C9).
func TestShared_locks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	alone, shared := options(vfs.OS(), dir), sharing(vfs.OS(), dir, "pod-b")
	alone.Holder = "pod-a"
	logs := make([]*Log, 4)
	each(len(logs), func(i int) { logs[i] = open(t, shared) })
	for _, l := range logs {
		require.Equal(t, logs[0].root.UUID(), l.root.UUID())
		_, err := Open(t.Context(), alone)
		require.ErrorAs(t, err, new(*vfs.LockedError))
		require.ErrorContains(t, err, "pod-b, host ")
		require.ErrorContains(t, err, "wal.shared: true")
		closeLog(t, l)
	}
	l := open(t, alone)
	_, err := Open(t.Context(), shared)
	require.ErrorAs(t, err, new(*vfs.LockedError))
	require.ErrorContains(t, err, "pod-a, host ")
	require.ErrorContains(t, err, "wal.shared: true")
	closeLog(t, l)
	closeLog(t, open(t, shared))
}

// What a living peer has open is left alone by a start and by every later look, its temporary file and the second
// name of a seal under way too; what a dead one has left is adopted without a restart, under any name of the
// process (T-06, T-07, T-08, G4). ACK-1, ONE-1.
func TestShared_adoption(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	a, b := disk.Process(), disk.Process()
	la := open(t, sharing(a, "/wal", "a"))
	got, err := la.Append(t.Context(), request(t, WaitFor, 1, 2))
	require.NoError(t, err)
	lane := la.lanes[laneKey{"t", "events"}].seg
	partial := lane.Path(segment.Active, got.Segment.PartialName())
	f, err := a.Create(partial + tempSuffix) // as renew does
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, a.Link(partial, lane.Path(segment.Sealed, got.Segment.FileName()))) // as a seal does

	lb := open(t, sharing(b, "/wal", "b"))
	other, err := lb.Append(t.Context(), request(t, Auto, 3))
	require.NoError(t, err)
	require.Len(t, leases(t, disk), 2)
	before := names(t, disk, "/wal", segment.Active)
	lb.adopt(t.Context())
	require.Equal(t, before, names(t, disk, "/wal", segment.Active))
	require.Len(t, before, 3)
	require.EqualValues(t, 1, lb.peers.Load())

	kill(t, a, la)
	lb.adopt(t.Context())
	require.Equal(t, []string{other.Segment.PartialName()}, names(t, disk, "/wal", segment.Active))
	require.Equal(t, []string{got.Segment.FileName()}, names(t, disk, "/wal", segment.Sealed))
	require.Len(t, leases(t, disk), 1)
	require.Zero(t, lb.peers.Load())
	closeLog(t, lb)
	require.Empty(t, leases(t, disk))
	require.ElementsMatch(t, []int64{1, 2, 3}, idsIn(scan(t, disk, "/wal"), segment.Sealed))
}

// Of several adopters at once each segment has one, at start and while they run; without locks they may meet at one
// segment and come to the same end. OWN-1.
func TestShared_adopters(t *testing.T) {
	t.Parallel()
	for name, volume := range map[string]func(vfs.FS) vfs.FS{
		"locks":    func(fsys vfs.FS) vfs.FS { return fsys },
		"no locks": func(fsys vfs.FS) vfs.FS { return lockless{fsys} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, clock := simfs.New(nil), &hand{}
			for i := range 4 {
				p := disk.Process()
				l := open(t, sharing(volume(p), "/wal", "victim"))
				for _, tenant := range []string{"t", "u", "v"} {
					r := request(t, WaitFor, int64(i+1))
					r.Tenant = tenant
					_, err := l.Append(t.Context(), r)
					require.NoError(t, err)
				}
				kill(t, p, l)
			}
			opt := sharing(volume(disk), "/wal", "adopter")
			opt.Now = clock.now
			adopters := make([]*Log, 3)
			each(len(adopters), func(i int) { adopters[i] = open(t, opt) })
			clock.advance(silentFor)
			each(len(adopters), func(i int) { adopters[i].adopt(t.Context()) })
			for _, l := range adopters {
				closeLog(t, l)
			}
			require.Empty(t, leases(t, disk))
			rows := idsIn(scan(t, disk, "/wal"), segment.Sealed)
			require.ElementsMatch(t, []int64{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}, rows)
		})
	}
}

// Two living logs under load on three lanes, rolling all the time. One is killed in the middle and adopted while
// the other goes on: of both, what was answered is sealed once. ACK-1, OWN-1; meant for -race.
func TestShared_load(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	procs := [2]*simfs.FS{disk.Process(), disk.Process()}
	var logs [2]*Log
	for i, p := range procs {
		opt := sharing(p, "/wal", "pod")
		opt.MaxEvents, opt.MaxAge = 16, 5*time.Millisecond
		logs[i] = open(t, opt)
	}
	const senders, rounds = 16, 40
	var acked [2 * senders][]int64
	var halfway sync.WaitGroup
	halfway.Add(senders / 2)
	looking, stop := context.WithCancel(t.Context())
	var looks sync.WaitGroup
	looks.Go(func() {
		for looking.Err() == nil {
			logs[1].adopt(looking)
		}
	})
	var killer sync.WaitGroup
	killer.Go(func() {
		halfway.Wait()
		kill(t, procs[0], logs[0])
	})
	each(2*senders, func(i int) {
		l := logs[i%2]
		for n := range rounds {
			if i%4 == 0 && n == rounds/2 {
				halfway.Done()
			}
			id := int64(1 + i*rounds + n)
			r := request(t, Mode(n%2), id)
			r.Tenant = []string{"a", "b", "c"}[i%3]
			if _, err := l.Append(t.Context(), r); err == nil {
				acked[i] = append(acked[i], id)
			} else {
				require.Zero(t, i%2, "the living refuses nothing: %v", err)
			}
		}
	})
	killer.Wait()
	stop()
	looks.Wait()
	logs[1].adopt(t.Context())
	closeLog(t, logs[1])
	require.Empty(t, leases(t, disk))
	times := map[int64]int{}
	for _, s := range scan(t, disk, "/wal") {
		require.Equal(t, segment.Sealed, s.state)
		for _, id := range s.ids {
			times[id]++
			require.Equal(t, 1, times[id], "row %d", id)
		}
	}
	for i, ids := range acked {
		for _, id := range ids {
			require.Equal(t, 1, times[id], "row %d of sender %d", id, i)
		}
		require.NotEmpty(t, ids)
	}
}

// A log that does not share its root removes the leases that sharing ones have left.
func TestShared_leftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closeLog(t, open(t, sharing(vfs.OS(), dir, "a")))
	dead := filepath.Join(dir, "leases", strings.Repeat("0a", 6)+".lock")
	require.NoError(t, os.WriteFile(dead, []byte("pod"), 0o600))
	closeLog(t, open(t, options(vfs.OS(), dir)))
	require.NoFileExists(t, dead)
}

// A writer whose lease was taken away (removed by hand, or by an adopter that took it for dead) answers nothing more
// from its segments and goes on under another name; what it had acknowledged is there once. ACK-1, LOUD-1.
func TestShared_lease_lost(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	opt := sharing(disk, "/wal", "a")
	opt.MaxEvents = 2
	l := open(t, opt)
	for id := range int64(3) { // the first two seal, the spare is made
		_, err := l.Append(t.Context(), request(t, WaitFor, id+1))
		require.NoError(t, err)
	}
	require.NoError(t, disk.Remove("/wal/leases/"+leases(t, disk)[0]))
	_, err := l.Append(t.Context(), request(t, WaitFor, 4))
	require.ErrorIs(t, err, segment.ErrLeaseLost)
	_, err = l.Append(t.Context(), request(t, WaitFor, 5))
	require.NoError(t, err)
	require.Len(t, leases(t, disk), 1)
	l.adopt(t.Context())
	closeLog(t, l)
	require.Empty(t, names(t, disk, "/wal", segment.Active))
	require.Empty(t, leases(t, disk))
	require.ElementsMatch(t, []int64{1, 2, 3, 4, 5}, idsIn(scan(t, disk, "/wal"), segment.Sealed), "4 was refused and may be there")
}

// A segment that vanishes from active/ is not taken as sealed in silence, also where the root is not shared. LOUD-1.
func TestSeized(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	opt := options(disk, "/wal")
	reader := metric.NewManualReader()
	opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	l := open(t, opt)
	got, err := l.Append(t.Context(), request(t, WaitFor, 1))
	require.NoError(t, err)
	require.NoError(t, disk.Remove("/wal/t/events/active/"+got.Segment.PartialName()))
	require.NoError(t, l.Seal(t.Context(), "t", "events"))
	require.EqualValues(t, 1, sums(t, reader)["siglake_wal_segments_seized_total"])
	closeLog(t, l)
}

// A damaged marker is mended by a process that starts alone; one that comes while others run on the root says what to
// do, and they go on.
func TestShared_damaged_marker(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	a := open(t, sharing(disk, "/wal", "a"))
	require.NoError(t, vfs.WriteFile(disk, "/wal/siglake-wal.json", []byte("{")))
	l := &Log{opt: sharing(disk, "/wal", "b"), fs: disk}
	l.opt.setDefaults()
	err := explain(&l.opt, l.joinOnce())
	require.ErrorIs(t, err, segment.ErrDamagedRoot)
	require.ErrorContains(t, err, "a, host ")
	require.ErrorContains(t, err, "starts alone")
	_, err = a.Append(t.Context(), request(t, WaitFor, 1))
	require.NoError(t, err)
	closeLog(t, a)
	opt := sharing(disk, "/wal", "c")
	core, logs := observer.New(zap.ErrorLevel)
	opt.Logger = zap.New(core)
	closeLog(t, open(t, opt))
	require.Equal(t, 1, logs.FilterMessageSnippet("was damaged").Len())
	require.Equal(t, []int64{1}, idsIn(scan(t, disk, "/wal"), segment.Sealed))
}
