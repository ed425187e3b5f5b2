package segment_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// A root and a lane are whole or absent after a crash anywhere in their making, and the second attempt keeps
// what the first had made durable.
func TestSweep_create(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	for k := 0; ; k++ {
		s := simfs.New(nil)
		require.NoError(t, s.MkdirAll("/data"))
		hook, fired := simfs.CutAt(k)
		s.SetHook(hook)
		id, err := createAll(s)
		for _, p := range simfs.Policies() {
			for n := range seeds(p) {
				rng := seed(n)
				after := s.Crash(p, rng)
				again, _ := simfs.CutAt(rng.IntN(24)) // and the next process is killed, too
				after.SetHook(again)
				_, _ = createAll(after)
				after = after.Crash(simfs.KeepAll, rng)
				got, err2 := createAll(after)
				require.NoError(t, err2, "k=%d %s seed %d", k, p, n)
				if err == nil {
					require.Equal(t, id, got, "a root that was created keeps its identity")
				}
				// Durable now, whatever the first process had left undone.
				final := after.Crash(simfs.KeepNone, rng)
				r, err2 := segment.Open(final, "/data/a/wal")
				require.NoError(t, err2, "k=%d %s seed %d", k, p, n)
				require.Equal(t, got, r.UUID())
				l, err2 := r.Lane("default", "events")
				require.NoError(t, err2)
				for _, st := range append(states, segment.MirrorPending) {
					_, err2 := final.Stat(l.Dir(st))
					require.NoError(t, err2, "k=%d %s seed %d: %s", k, p, n, st)
				}
			}
		}
		if !fired() {
			require.NoError(t, err)
			require.Greater(t, k, 20)
			return
		}
	}
}

func createAll(s *simfs.FS) (uuid.UUID, error) {
	r, err := segment.Create(s, "/data/a/wal")
	if err != nil {
		return uuid.Nil, err
	}
	l, err := r.Lane("default", "events")
	if err != nil {
		return uuid.Nil, err
	}
	return r.UUID(), l.Prepare()
}

// The sweep can fail: each Move with a planted mistake is caught. The first is the reference's order, and what
// we do where links are refused; siglake doctor warns of such volumes.
func TestSweep_finds_planted_bugs(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	for _, tc := range []struct {
		name string
		move func(s *simfs.FS, src, dst, srcDir, dstDir string) error
	}{
		{"rename", func(s *simfs.FS, src, dst, srcDir, dstDir string) error {
			return errors.Join(s.Rename(src, dst), s.SyncDir(dstDir), s.SyncDir(srcDir))
		}},
		{"unlink before the destination is synced", func(s *simfs.FS, src, dst, srcDir, dstDir string) error {
			return errors.Join(s.Link(src, dst), s.Remove(src), s.SyncDir(dstDir), s.SyncDir(srcDir))
		}},
		{"source first", func(s *simfs.FS, src, dst, srcDir, dstDir string) error {
			return errors.Join(s.Link(src, dst), s.Remove(src), s.SyncDir(srcDir), s.SyncDir(dstDir))
		}},
		{"destination not synced", func(s *simfs.FS, src, dst, srcDir, _ string) error {
			return errors.Join(s.Link(src, dst), s.Remove(src), s.SyncDir(srcDir))
		}},
		{"source not synced", func(s *simfs.FS, src, dst, _, dstDir string) error {
			return errors.Join(s.Link(src, dst), s.SyncDir(dstDir), s.Remove(src))
		}},
		{"nothing synced", func(s *simfs.FS, src, dst, _, _ string) error {
			return errors.Join(s.Link(src, dst), s.Remove(src))
		}},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			sc := scene{name: tc.name, start: segment.Processing, count: 1, done: []string{"committed/0.arrow"}}
			sc.event = func(s *simfs.FS, l segment.Lane, names []string) error {
				return tc.move(s, l.Path(segment.Processing, names[0]), l.Path(segment.Committed, names[0]),
					l.Dir(segment.Processing), l.Dir(segment.Committed))
			}
			_, err := sweep(t, sc)
			require.Error(t, err)
			t.Log(err)
		})
	}
}

// Resolve cut before every operation and run again comes to the same end: copies that contradict each other are
// all in poison/ with a note, of others the longest is left; no content is lost (ONE-1, LOUD-1).
func TestSweep_resolve(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 100)
	for _, tc := range []struct {
		name  string
		given []file
		want  []string // contents that must be left, in order
		state string   // of all of them
	}{
		{"one file", []file{{st: segment.Sealed, content: long}, {st: segment.Processing, linkTo: segment.Sealed}}, []string{long}, "processing"},
		{"longest", []file{
			{st: segment.Sealed, content: long + "b"}, {st: segment.Orphans, content: long + "bc"}, {st: segment.Committed, content: long},
		}, []string{long + "bc"}, "orphans"},
		{"contradict", []file{
			{st: segment.Sealed, content: long + "a"}, {st: segment.Orphans, content: long + "b"}, {st: segment.Committed, content: long + "c"},
		}, []string{long + "a", long + "b", long + "c"}, "poison"},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for k := 0; ; k++ {
				s, l := simLane(t)
				all := ids(1)
				given(t, s, l, all[0], tc.given)
				hook, fired := simfs.CutAt(k)
				s.SetHook(hook)
				_, err := l.Resolve(segment.ByDrain)
				for _, p := range simfs.Policies() {
					for n := range seeds(p) {
						after := s.Crash(p, seed(n))
						require.NoError(t, recoverLane(after))
						l, err := reopen(after)
						require.NoError(t, err)
						var got []string
						for _, name := range where(t, l, all) {
							st, file, _ := strings.Cut(strings.Replace(name, "0", all[0].String(), 1), "/")
							if p == simfs.KeepAll { // the others may undo the claim itself
								require.Equal(t, tc.state, st, "k=%d %s seed %d", k, p, n)
							}
							got = append(got, contentOf(t, after, l.Path(segment.State(st), file)))
							if st == string(segment.Poison) {
								_, err := l.ReadNote(file)
								require.NoError(t, err)
							}
						}
						slices.Sort(got)
						require.Equal(t, tc.want, got, "k=%d %s seed %d", k, p, n)
						require.NoError(t, noTemps(after))
					}
				}
				if !fired() {
					require.NoError(t, err)
					require.Greater(t, k, 2)
					return
				}
			}
		})
	}
}

// SEE-1: of two copies the one that is kept is synced before the other goes, bytes and name.
func TestResolve_syncs_what_it_keeps(t *testing.T) {
	t.Parallel()
	s, l := simLane(t)
	all := ids(1)
	place(t, s, l.Path(segment.Processing, all[0].FileName()), body(all[0]))
	f, err := s.Create(l.Path(segment.Committed, all[0].FileName())) // by a process that was killed: nothing synced
	require.NoError(t, err)
	_, err = f.Writev([][]byte{[]byte(body(all[0]))})
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = l.Resolve(segment.ByDrain)
	require.NoError(t, err)
	for n := range uint64(20) {
		after, err := reopen(s.Crash(simfs.KeepAny, seed(n)))
		require.NoError(t, err)
		require.Equal(t, []string{"committed/0.arrow"}, where(t, after, all))
	}
	require.Equal(t, body(all[0]), contentOf(t, s.Crash(simfs.KeepNone, seed(1)), l.Path(segment.Committed, all[0].FileName())))
}
