package drain

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// batches encodes a sealed segment of several batches and returns where each ends in the file.
func batches(t *testing.T, rows ...int) (file []byte, ends []int) {
	t.Helper()
	schema := otelarrow.WALSchema(otelarrow.Logs)
	body, err := frame.EncodeSchema(schema)
	require.NoError(t, err)
	enc, err := frame.NewEncoder(schema)
	require.NoError(t, err)
	for _, n := range rows {
		batch := records(t, spec{rows: n})
		body, err = enc.Append(body, batch.Record)
		require.NoError(t, err)
		batch.Record.Release()
		ends = append(ends, frame.HeaderSize+len(body))
	}
	return sealed(append(body, frame.EOS()...), spec{}, 1, 2), ends
}

// sealBytes puts a file into a state under a fresh id and expects rows of it in the table.
func (w *world) sealBytes(st segment.State, file []byte, rows int) segment.ID {
	w.t.Helper()
	id := w.namer("events").Next(time.Now())
	lane := w.lane("events")
	put(w.t, w.fs, lane.Path(st, id.FileName()), file)
	require.NoError(w.t, w.fs.SyncDir(lane.Dir(st)))
	if rows > 0 {
		w.want[id.String()] = rows
	}
	return id
}

func (w *world) requeue(opt RequeueOptions) ([]Requeue, error) {
	if opt.From == "" {
		opt.From = segment.Poison
	}
	opt.FS, opt.WAL, opt.Holder, opt.Logger, opt.Now = w.fs, w.dir, "test", w.opt.Logger, time.Now
	return RequeueSegments(w.t.Context(), opt)
}

// requeued is requeue that must not fail, and what became of each.
func (w *world) requeued(opt RequeueOptions) []Requeue {
	w.t.Helper()
	done, err := w.requeue(opt)
	require.NoError(w.t, err)
	return done
}

func fates(done []Requeue) (out []Fate) {
	for _, d := range done {
		out = append(out, d.Fate)
	}
	return out
}

// LAKE-1, LOUD-1. A damaged segment goes to poison; it is refused as it stands; salvaged, exactly the rows before the
// damage are committed; the original stays with a note; a second time changes nothing.
func TestRequeue_salvage(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{})
	file, ends := batches(t, 3, 2, 4, 5)
	bad := slices.Clone(file)
	bad[ends[2]-20] ^= 1
	id := w.sealBytes(segment.Sealed, bad, 0)
	w.seal(spec{})
	require.EqualValues(t, 1, w.once().Poisoned)
	lane := w.lane("events")
	path := lane.Path(segment.Poison, id.FileName())
	before := w.files()

	want := Requeue{
		Lane: "default/events", Path: path, ID: id, Bytes: int64(len(bad)), Fate: Refused, Rows: 5, Batches: 2,
		LostBytes: int64(len(bad) - ends[1]), LostBatches: 1, LostRows: 5,
	}
	for _, dry := range []bool{true, false} {
		got := w.requeued(RequeueOptions{Selection: Selection{DryRun: dry}})
		require.Len(t, got, 1)
		require.ErrorIs(t, got[0].Err, ErrDamaged)
		require.ErrorIs(t, got[0].Err, frame.ErrCRC)
		require.Contains(t, got[0].Note, "CRC mismatch")
		want.Note, want.Err = got[0].Note, got[0].Err
		require.Equal(t, want, got[0])
		require.Equal(t, before, w.files(), "a refused segment is left as it is")
	}

	want.Fate, want.Kept = Salvaged, path+".salvaged"
	for _, dry := range []bool{true, false} {
		got := w.requeued(RequeueOptions{Selection: Selection{DryRun: dry}, Salvage: true})
		require.Len(t, got, 1)
		require.ErrorIs(t, got[0].Err, frame.ErrCRC)
		want.Err = got[0].Err
		require.Equal(t, want, got[0])
		if dry {
			require.Equal(t, before, w.files())
		}
	}
	note, err := lane.ReadNote(id.FileName() + ".salvaged")
	require.NoError(t, err)
	require.Contains(t, note.Reason, fmt.Sprintf("5 rows in 2 batches went back to sealed; not brought back: %d bytes from offset %d, "+
		"in them 1 sound batches of 5 rows", len(bad)-ends[1], ends[1]))
	require.Contains(t, note.Reason, "set aside for: "+want.Note)

	require.EqualValues(t, 5, w.once().Rows)
	w.want[id.String()] = 5
	w.accounted()
	require.Equal(t, map[segment.State]int{segment.Committed: 3}, w.states("events"))
	require.Empty(t, w.strays())
	require.Empty(t, w.requeued(RequeueOptions{Salvage: true}))
	require.Zero(t, w.once().Rows)
	require.Zero(t, w.once().Gaps)
	w.accounted()
	data, err := vfs.ReadFile(w.fs, path+".salvaged")
	require.NoError(t, err)
	require.Equal(t, bad, data)

	// The whole segment comes from a copy elsewhere, under its id: only its other rows are written.
	require.NoError(t, lane.Retire([]string{id.FileName()}))
	put(t, w.fs, lane.Path(segment.Sealed, id.FileName()), file)
	require.EqualValues(t, 9, w.once().Rows)
	w.want[id.String()] = 14
	w.accounted()
}

// A segment whose cause has gone goes back whole, and rows that the table has are not doubled: neither the beginning of
// a segment that was committed in part, nor all of one that was committed and not marked.
func TestRequeue_cause_gone(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.tables.get("events").forget = true // the proof remembers nothing
	lane := w.lane("events")
	file, _ := batches(t, 3, 2)
	w.fs.(*simfs.FS).SetHook(func(op simfs.Op) error { // a disk that does not return the bytes for a while
		if op.Kind == simfs.ReadAt && strings.Contains(op.Name, "/processing/") {
			return syscall.EIO
		}
		return nil
	})
	for range 3 {
		w.sealBytes(segment.Sealed, file, 5)
	}
	require.Empty(t, w.once().Failures)
	w.fs.(*simfs.FS).SetHook(nil)
	names := w.in("events", segment.Poison)
	require.Len(t, names, 3)
	w.tables.get("events").rows[strings.TrimSuffix(names[0], ".arrow")] = []int{1, 1}
	w.tables.get("events").rows[strings.TrimSuffix(names[1], ".arrow")] = []int{1, 1, 1, 1, 1}

	id, _, err := segment.ParseName(names[1])
	require.NoError(t, err)
	got := w.requeued(RequeueOptions{Selection: Selection{IDs: []segment.ID{id}}})
	require.Equal(t, []Fate{Requeued}, fates(got))
	require.EqualValues(t, 5, got[0].Rows)
	require.Contains(t, got[0].Note, "input/output error")
	require.Len(t, w.in("events", segment.Poison), 2, "one that is named goes alone")
	require.Empty(t, w.requeued(RequeueOptions{Selection: Selection{Lane: "default/other"}}))
	require.Equal(t, []Fate{Requeued, Requeued}, fates(w.requeued(RequeueOptions{Selection: Selection{Lane: "default/events"}, Salvage: true})))
	entries, err := w.fs.List(lane.Dir(segment.Poison))
	require.NoError(t, err)
	require.Empty(t, entries, "their notes are gone too")

	r := w.once()
	require.EqualValues(t, 3+5, r.Rows)
	require.EqualValues(t, 2+5, r.Duplicates)
	require.Zero(t, r.Gaps)
	w.accounted()
	require.Equal(t, map[segment.State]int{segment.Committed: 3}, w.states("events"))
}

// What is refused stays as it is, and says why.
func TestRequeue_refuses(t *testing.T) {
	t.Parallel()
	file, ends := batches(t, 3, 2)
	bad := slices.Clone(file)
	bad[ends[0]-20] ^= 1 // in the first batch
	for _, tc := range []struct {
		name  string
		file  []byte
		other string // a second name, below the lane; %s is the id
		want  error
	}{
		{"no whole batch", bad, "", frame.ErrNoBatch},
		{"no bytes", nil, "", frame.ErrEmpty},
		{"newer version", append([]byte("LWAL\x03"), make([]byte, 100)...), "", frame.ErrVersion},
		{"not ours", noise(), "", frame.ErrNoBatch},
		{"another's bytes", anothers(t), "", segment.ErrOther},
		{"copy in sealed", file, "sealed/%s.arrow", ErrOtherCopy},
		{"copy in active", file, "active/%s.arrow.partial", ErrOtherCopy},
		{"copy in committed", bad, "committed/%s.arrow", ErrOtherCopy},
		{"copy in stale", bad, "stale/11111111-2222-4333-8444-555555555555/%s.arrow", ErrOtherCopy},
		{"copy in poison", bad, "poison/%s.arrow.2", ErrOtherCopy},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := onDisk(t)
			id := w.sealBytes(segment.Poison, tc.file, 0)
			lane := w.lane("events")
			if tc.other != "" {
				require.NoError(t, w.fs.MkdirAll(lane.Path(segment.Stale, "11111111-2222-4333-8444-555555555555")))
				put(t, w.fs, lane.Path("", fmt.Sprintf(tc.other, id)), noise())
			}
			before := w.files()
			for _, opt := range []RequeueOptions{{Selection: Selection{DryRun: true}}, {Selection: Selection{DryRun: true}, Salvage: true}, {}, {Salvage: true}} {
				got := w.requeued(opt)
				require.NotEmpty(t, got)
				for _, g := range got {
					require.Equal(t, Refused, g.Fate)
					require.ErrorIs(t, g.Err, tc.want)
				}
				if opt.DryRun || !errors.Is(tc.want, ErrOtherCopy) { // resolving names may set contradicting copies aside
					require.Equal(t, before, w.files())
				}
			}
		})
	}
}

// anothers is a segment that bears another id than its name.
func anothers(t *testing.T) []byte {
	t.Helper()
	body, err := frame.EncodeSchema(segment.NewNamer([6]byte{9}).Next(time.Now()).Name(otelarrow.WALSchema(otelarrow.Logs)))
	require.NoError(t, err)
	enc, err := frame.NewEncoder(otelarrow.WALSchema(otelarrow.Logs))
	require.NoError(t, err)
	batch := records(t, spec{rows: 3})
	defer batch.Record.Release()
	body, err = enc.Append(body, batch.Record)
	require.NoError(t, err)
	return sealed(append(body, frame.EOS()...), spec{}, 1, 2)
}

func noise() []byte { return []byte(strings.Repeat("noise and more. ", 100)) }

// files is every file below the root, locks apart, with its content.
func (w *world) files() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	var visit func(dir string)
	visit = func(dir string) {
		entries, err := w.fs.List(dir)
		require.NoError(w.t, err)
		for _, e := range entries {
			path := dir + "/" + e.Name
			if e.IsDir {
				visit(path)
				continue
			}
			b, err := vfs.ReadFile(w.fs, path)
			require.NoError(w.t, err)
			if !strings.HasSuffix(path, segment.DrainLockName) {
				out[path] = string(b)
			}
		}
	}
	visit(w.dir)
	return out
}

// A Move back beside a drain can lose a segment (ADR 0004): while one runs, nothing is moved.
func TestRequeue_beside_a_drain(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	file, _ := batches(t, 3, 2)
	w.sealBytes(segment.Poison, file[:len(file)-20], 0) // which stays until it is salvaged
	stop := w.start()
	eventually(t, func() bool {
		_, err := w.requeue(RequeueOptions{})
		_, locked := errors.AsType[*vfs.LockedError](err)
		return locked
	}, "the drain has its lock")
	require.Equal(t, []Fate{Salvaged}, fates(w.requeued(RequeueOptions{Selection: Selection{DryRun: true}, Salvage: true})), "a look needs no lock")
	require.NoError(t, stop())
	require.Equal(t, []Fate{Salvaged}, fates(w.requeued(RequeueOptions{Salvage: true})))
}

func TestRequeue_no_root(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.dir = "/elsewhere"
	_, err := w.requeue(RequeueOptions{})
	require.ErrorIs(t, err, segment.ErrNotRoot)
	_, err = w.fs.Stat("/elsewhere")
	require.ErrorIs(t, err, fs.ErrNotExist, "nothing is made")
}
