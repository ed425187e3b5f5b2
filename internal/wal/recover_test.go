package wal

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// partial is the bytes of an open segment with three batches, and where each part of it ends.
func partial(t *testing.T, table uuid.UUID) (whole []byte, ends []int) {
	t.Helper()
	head := frame.Header{Partial: true, Table: table}.Encode()
	schema, err := frame.EncodeSchema(testSchemas[0])
	require.NoError(t, err)
	whole = slices.Concat(head[:], schema)
	ends = []int{len(head), len(whole)}
	for _, ids := range [][]int64{{1, 2}, {3}, {4, 5}} {
		whole = append(whole, body(t, testSchemas[0], ids...)...)
		ends = append(ends, len(whole))
	}
	return whole, ends
}

// leave writes files into active/ of a lane as a dead writer would have.
func leave(t *testing.T, dir, tenant string, files map[segment.ID][]byte) {
	t.Helper()
	root, err := segment.Create(vfs.OS(), dir)
	require.NoError(t, err)
	lane, err := root.Lane(tenant, "events")
	require.NoError(t, err)
	require.NoError(t, lane.Prepare())
	for id, b := range files {
		require.NoError(t, os.WriteFile(lane.Path(segment.Active, id.PartialName()), b, 0o600))
	}
}

func someIDs(n int) []segment.ID {
	namer := segment.NewNamer([6]byte{1, 2, 3})
	out := make([]segment.ID, n)
	for i := range out {
		out[i] = namer.Next(testTime)
	}
	return out
}

// sums collects every counter of a meter by name, over all attributes.
func sums(t *testing.T, reader metric.Reader) map[string]int64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &rm))
	out := map[string]int64{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					out[m.Name] += p.Value
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					out[m.Name] += p.Value
				}
			}
		}
	}
	return out
}

// A file cut at any byte is recovered without waiting for traffic: whole batches in sealed/, unchanged, nothing
// else lost; without one it is removed or set aside. Every outcome is counted once and not again at the next
// start. ACK-1, ACK-2, LOUD-1 (cases A1, A3, A13).
func TestRecover_cut_A1_A3(t *testing.T) {
	t.Parallel()
	table := uuid.MustParse("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
	whole, ends := partial(t, table)
	cuts := []int{0, 1, 3, 4, 51}
	for _, e := range ends {
		cuts = append(cuts, e-1, e, e+1, e+4, e+7, e+8, e+9, e+200)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	dir := t.TempDir()
	ids := someIDs(len(cuts))
	files := map[segment.ID][]byte{}
	for i, cut := range cuts {
		cuts[i] = min(cut, len(whole))
		files[ids[i]] = whole[:cuts[i]]
	}
	leave(t, dir, "t", files)
	reader := metric.NewManualReader()
	opt := options(vfs.OS(), dir)
	opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	core, logs := observer.New(zap.WarnLevel)
	opt.Logger = zap.New(core)
	l := open(t, opt)

	byID := map[segment.ID]found{}
	for _, s := range scan(t, vfs.OS(), dir) {
		require.Equal(t, segment.Sealed, s.state)
		byID[s.id] = s
	}
	var recovered, torn, empty, poisoned int
	for i, cut := range cuts {
		var want []int64
		for j, ids := range [][]int64{{1, 2}, {3}, {4, 5}} {
			if cut >= ends[2+j] {
				want = append(want, ids...)
			}
		}
		got, sealed := byID[ids[i]]
		switch {
		case len(want) > 0:
			require.True(t, sealed, "cut at %d", cut)
			require.Equal(t, want, got.ids)
			require.True(t, got.header.Partial, "moved unchanged")
			require.Equal(t, table, got.header.Table)
			recovered++
			if !slices.Contains(ends, cut) {
				torn++
			}
		case cut <= ends[0] || cut == ends[1]:
			require.False(t, sealed)
			empty++
		case cut < ends[1]:
			require.False(t, sealed)
			poisoned++
		default:
			require.False(t, sealed)
			empty++
			torn++
		}
	}
	got := sums(t, reader)
	require.EqualValues(t, recovered, got["siglake_wal_partials_recovered_total"])
	require.EqualValues(t, torn, got["siglake_wal_partial_tail_dropped_total"])
	require.EqualValues(t, empty, got["siglake_wal_partials_empty_total"])
	require.EqualValues(t, poisoned, got["siglake_wal_partials_poisoned_total"])
	require.Len(t, logs.FilterMessageSnippet("torn tail").All(), torn)
	require.Empty(t, names(t, vfs.OS(), dir, segment.Active))
	require.Len(t, names(t, vfs.OS(), dir, segment.Poison), 2*poisoned, "each with its note")
	closeLog(t, l)

	logs.TakeAll()
	l = open(t, opt)
	require.Empty(t, logs.All(), "said once")
	require.Equal(t, got["siglake_wal_partials_poisoned_total"], sums(t, reader)["siglake_wal_partials_poisoned_total"])
	closeLog(t, l)
}

// What a kill in the middle of the first write leaves is removed; what only looks like it may hold rows that were
// acknowledged, and is set aside with a note. LOUD-1.
func TestRecover_no_whole_batch_is_a_cut_or_set_aside(t *testing.T) {
	t.Parallel()
	whole, ends := partial(t, uuid.Nil)
	cut := whole[:ends[2]-8]
	final := frame.Header{BodyLen: uint64(len(whole) - ends[0])}.Encode()
	rotten := bytes.Clone(cut)
	rotten[20] ^= 1
	flipped := bytes.Clone(whole[:ends[2]])
	flipped[ends[2]-20] ^= 1
	zeros := slices.Concat(cut[:ends[1]], make([]byte, ends[2]-ends[1]))
	for name, tc := range map[string]struct {
		file  []byte
		aside bool
	}{
		"a cut first write":                 {cut, false},
		"of a segment that was sealed":      {slices.Concat(final[:], cut[ends[0]:]), true},
		"with a damaged header":             {rotten, true},
		"without a header":                  {cut[ends[0]:], true},
		"a flipped bit in the only batch":   {flipped, true},
		"zeros where the first batch stood": {zeros, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, id := t.TempDir(), someIDs(1)[0]
			leave(t, dir, "t", map[segment.ID][]byte{id: tc.file})
			closeLog(t, open(t, options(vfs.OS(), dir)))
			require.Empty(t, names(t, vfs.OS(), dir, segment.Active))
			require.Empty(t, names(t, vfs.OS(), dir, segment.Sealed))
			var want []string
			if tc.aside {
				want = []string{id.PartialName(), id.PartialName() + ".json"}
			}
			require.ElementsMatch(t, want, names(t, vfs.OS(), dir, segment.Poison))
		})
	}
}

// Lanes without traffic are recovered too, each of them (A13, T-06).
func TestRecover_idle_tenants_A13_T06(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, _ := partial(t, uuid.Nil)
	for _, tenant := range []string{"a", "b", "c"} {
		leave(t, dir, tenant, map[segment.ID][]byte{someIDs(1)[0]: whole})
	}
	closeLog(t, open(t, options(vfs.OS(), dir)))
	segs := scan(t, vfs.OS(), dir)
	require.Len(t, segs, 3)
	for _, s := range segs {
		require.Equal(t, segment.Sealed, s.state)
		require.Equal(t, []int64{1, 2, 3, 4, 5}, s.ids)
	}
}

// Damage behind whole batches: they are kept, the rest is set aside in poison/ and not deleted, whether a whole
// batch follows it or not. ACK-1, LOUD-1 (A14).
func TestRecover_damage_behind_whole_batches_A14(t *testing.T) {
	t.Parallel()
	whole, ends := partial(t, uuid.Nil)
	for name, at := range map[string]int{"in the middle": ends[2] + 300, "in the last": ends[3] + 300} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := slices.Clone(whole)
			b[at] ^= 0x40
			keep := ends[2]
			want := []int64{1, 2}
			if at > ends[3] {
				keep, want = ends[3], []int64{1, 2, 3}
			}
			leave(t, dir, "t", map[segment.ID][]byte{someIDs(1)[0]: b})
			closeLog(t, open(t, options(vfs.OS(), dir)))
			segs := scan(t, vfs.OS(), dir)
			require.Len(t, segs, 1)
			require.Equal(t, segment.Sealed, segs[0].state)
			require.Equal(t, want, segs[0].ids)
			aside := names(t, vfs.OS(), dir, segment.Poison)
			require.Len(t, aside, 2)
			got, err := os.ReadFile(filepath.Join(dir, "t", "events", "poison", aside[0]))
			require.NoError(t, err)
			require.Equal(t, b[keep:], got)
		})
	}
}

// A crash inside a seal may keep the final header and lose the tail. In active/ that is a partial, and in
// sealed/ it must read as one. ACK-1.
func TestRecover_final_header_and_torn_tail(t *testing.T) {
	t.Parallel()
	table := uuid.MustParse("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
	whole, _ := partial(t, table)
	head := frame.Header{MinTime: 1, MaxTime: 5, BodyLen: uint64(len(whole) + 8 - frame.HeaderSize), CRC: 7, Table: table}.Encode()
	copy(whole, head[:])
	dir := t.TempDir()
	ids := someIDs(2)
	sealed := slices.Concat(whole, frame.EOS())
	leave(t, dir, "t", map[segment.ID][]byte{ids[0]: whole, ids[1]: sealed}) // the second: length right, CRC wrong
	closeLog(t, open(t, options(vfs.OS(), dir)))
	segs := scan(t, vfs.OS(), dir)
	require.Len(t, segs, 2)
	for _, s := range segs {
		require.Equal(t, segment.Sealed, s.state)
		require.Equal(t, []int64{1, 2, 3, 4, 5}, s.ids)
		require.Equal(t, table, s.header.Table)
		require.True(t, s.header.Partial)
	}
}

// Rot in the header of an open segment costs no row and sends none to another table: in sealed/ such a header would be
// damage. ACK-1, LOUD-1.
func TestRecover_damaged_header(t *testing.T) {
	t.Parallel()
	table := uuid.MustParse("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
	whole, _ := partial(t, table)
	for name, at := range map[string]int{"flags": 5, "check": 6, "length": 24, "table": 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := slices.Clone(whole)
			b[at] ^= 1
			dir := t.TempDir()
			leave(t, dir, "t", map[segment.ID][]byte{someIDs(1)[0]: b})
			core, logs := observer.New(zap.WarnLevel)
			opt := options(vfs.OS(), dir)
			opt.Logger = zap.New(core)
			closeLog(t, open(t, opt))
			segs := scan(t, vfs.OS(), dir)
			require.Len(t, segs, 1)
			require.Equal(t, segment.Sealed, segs[0].state)
			require.Equal(t, []int64{1, 2, 3, 4, 5}, segs[0].ids)
			require.Equal(t, frame.Header{Version: 2, Partial: true}, segs[0].header)
			require.Len(t, logs.FilterMessageSnippet("header of an open segment is damaged").All(), 1)
		})
	}
}

// A segment of the first version that a crash of its seal left in active/: its shorter header is written over, and not
// the body behind it.
func TestRecover_first_version(t *testing.T) {
	t.Parallel()
	v2, _ := partial(t, uuid.Nil)
	sealed := frame.Header{BodyLen: 7, CRC: 7}.Encode() // both wrong
	sealed[4] = 1
	dir := t.TempDir()
	leave(t, dir, "t", map[segment.ID][]byte{someIDs(1)[0]: slices.Concat(sealed[:36], v2[frame.HeaderSize:])})
	closeLog(t, open(t, options(vfs.OS(), dir)))
	segs := scan(t, vfs.OS(), dir)
	require.Len(t, segs, 1)
	require.Equal(t, []int64{1, 2, 3, 4, 5}, segs[0].ids)
	require.Equal(t, frame.Header{Version: 1, Partial: true}, segs[0].header)
}

// A segment of a newer format stays where it is, byte for byte, and does not stop the start (A11). Strangers and
// temporary files neither.
func TestRecover_leaves_what_it_does_not_know_A11(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, _ := partial(t, uuid.Nil)
	newer := slices.Clone(whole)
	newer[4] = 9
	ids := someIDs(2)
	leave(t, dir, "t", map[segment.ID][]byte{ids[0]: newer, ids[1]: whole})
	active := filepath.Join(dir, "t", "events", "active")
	require.NoError(t, os.WriteFile(filepath.Join(active, "notes.txt"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(active, ids[1].PartialName()+".tmp"), whole, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	core, logs := observer.New(zap.WarnLevel)
	opt := options(vfs.OS(), dir)
	opt.Logger = zap.New(core)
	closeLog(t, open(t, opt))
	got, err := os.ReadFile(filepath.Join(active, ids[0].PartialName()))
	require.NoError(t, err)
	require.True(t, bytes.Equal(newer, got))
	require.Equal(t, []string{ids[0].PartialName(), "notes.txt"}, names(t, vfs.OS(), dir, segment.Active))
	require.Equal(t, []string{ids[1].FileName()}, names(t, vfs.OS(), dir, segment.Sealed))
	require.Len(t, logs.FilterMessageSnippet("ignored").All(), 2)
	require.Len(t, logs.FilterMessageSnippet("newer version").All(), 1)
}

// A segment that the disk does not let recover stops no start and no other segment; it is recovered while the
// log runs, as soon as the disk lets it.
func TestRecover_later(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := simfs.New(nil)
		l := open(t, options(disk, "/wal"))
		_, err := l.Append(t.Context(), request(t, WaitFor, 1))
		require.NoError(t, err)
		_, err = l.Append(t.Context(), func() Request { r := request(t, WaitFor, 2); r.Tenant = "u"; return r }())
		require.NoError(t, err)
		disk.PowerOff()
		done, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, l.Close(done))
		after := disk.Crash(simfs.KeepNone, rand.New(rand.NewPCG(1, 1)))
		hook, _ := simfs.FailAt(0, simfs.OpenRW.Is, syscall.EIO)
		after.SetHook(hook)
		reader := metric.NewManualReader()
		opt := options(after, "/wal")
		opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
		l = open(t, opt)
		require.Equal(t, []int64{2}, idsIn(scan(t, after, "/wal"), segment.Sealed))
		require.EqualValues(t, 1, sums(t, reader)["siglake_wal_partials_unrecovered_total"])
		time.Sleep(watchEvery + time.Second) // in the bubble
		synctest.Wait()
		require.Equal(t, []int64{1, 2}, idsIn(scan(t, after, "/wal"), segment.Sealed))
		require.EqualValues(t, 2, sums(t, reader)["siglake_wal_partials_recovered_total"])
		closeLog(t, l)
	})
}

// Every counter is there from the start, so that an alert sees the first event.
func TestMetrics_start_at_zero(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	opt := options(simfs.New(nil), "/wal")
	opt.Meter = metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	l := open(t, opt)
	got := sums(t, reader)
	for _, name := range []string{
		"appends_total", "append_bytes_total", "append_rows_total", "refused_total", "seals_total",
		"partials_recovered_total", "partial_tail_dropped_total", "partial_tail_dropped_bytes_total",
		"partials_empty_total", "partials_poisoned_total", "partials_unrecovered_total", "unsynced_rows_lost_total",
		"in_flight_bytes",
	} {
		n, there := got["siglake_wal_"+name]
		require.True(t, there, name)
		require.Zero(t, n, name)
	}
	_, err := l.Append(t.Context(), request(t, WaitFor, 1, 2))
	require.NoError(t, err)
	closeLog(t, l)
	got = sums(t, reader)
	require.EqualValues(t, 1, got["siglake_wal_appends_total"])
	require.EqualValues(t, 2, got["siglake_wal_append_rows_total"])
	require.EqualValues(t, 1, got["siglake_wal_seals_total"])
	require.EqualValues(t, len(request(t, WaitFor, 1, 2).Body), got["siglake_wal_append_bytes_total"])
}
