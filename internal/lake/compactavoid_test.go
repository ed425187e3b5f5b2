package lake

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// eachDay commits as many files as make a merge to each of so many days, two rows each.
func eachDay(tb testing.TB, t *Table, days int) (out []Segment) {
	tb.Helper()
	for i := range days * mergeFiles {
		at := day0.AddDate(0, 0, i/mergeFiles).Add(time.Duration(i%mergeFiles) * time.Minute)
		seg := segment(tb, testID(tb, time.Now(), uint64(i)), rowsAt(at, 2))
		_, err := t.Commit(tb.Context(), []Segment{seg})
		require.NoError(tb, err)
		out = append(out, seg)
	}
	return out
}

// One damaged file of the newest day: it is named once, the other days are merged in the same round, and when it is whole
// again its day follows.
func TestCompact_goes_on_beside_a_file_that_cannot_be_read(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(content []byte) []byte{
		"truncated": func(c []byte) []byte { return c[:len(c)/2] },
		"flipped": func(c []byte) []byte {
			c[50] ^= 0x10
			return c
		},
		"gone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := lakeAt(t, dir, hooks{})
			now := time.Now()
			l.now = func() time.Time { return now }
			core, logs := observer.New(zap.WarnLevel)
			l.log = zap.New(core)
			const days = 4
			segs := eachDay(t, events(t, l), days)
			bad := ""
			for _, df := range manifestFiles(t, l) {
				if strings.Contains(df.FilePath(), dayText(dayOf(day0.UnixNano())+days-1)) {
					bad = df.FilePath()
				}
			}
			whole, err := l.io.ReadFile(bad)
			require.NoError(t, err)
			path, err := plain(bad)
			require.NoError(t, err)
			if damage == nil {
				require.NoError(t, os.Remove(path))
			} else {
				require.NoError(t, os.WriteFile(path, damage(append([]byte{}, whole...)), 0o600))
			}

			c := newCompactor(l)
			require.NoError(t, c.round(t.Context()))
			require.Len(t, manifestFiles(t, l), mergeFiles+days-1, "all days but that one")
			require.Equal(t, 1, logs.Len())
			require.Equal(t, bad, logs.All()[0].ContextMap()["file"])
			require.Equal(t, avoidFirst, logs.All()[0].ContextMap()["after"])
			e := c.tables["siglake.events"]
			require.True(t, e.waits(now))
			for range 2 * idleRounds {
				require.NoError(t, c.round(t.Context()))
			}
			require.Equal(t, 1, logs.Len(), "it is left alone")

			now = now.Add(avoidFirst)
			require.False(t, e.waits(now))
			for range 2 * idleRounds {
				require.NoError(t, c.round(t.Context()))
			}
			require.Equal(t, 2, logs.Len())
			require.Equal(t, 2*avoidFirst, logs.All()[1].ContextMap()["after"])

			require.NoError(t, os.WriteFile(path, whole, 0o600))
			now = now.Add(2 * avoidFirst)
			for range 2 * idleRounds {
				require.NoError(t, c.round(t.Context()))
			}
			require.Equal(t, 2, logs.Len())
			require.Len(t, manifestFiles(t, l), days)
			require.Empty(t, e.avoid, "what is not in the table any more is forgotten")
			requireExactly(t, l, segs...)
		})
	}
}

// Trouble that is no file's ends the round, and no file is left out for it.
func TestCompact_stops_where_no_file_is_to_blame(t *testing.T) {
	t.Parallel()
	const days = 3
	round := func(t *testing.T, l *Lake, ctx context.Context) error {
		t.Helper()
		eachDay(t, events(t, l), days)
		c := newCompactor(l)
		err := c.round(ctx)
		require.Len(t, manifestFiles(t, l), days*mergeFiles)
		require.Empty(t, c.tables["siglake.events"].avoid)
		return err
	}
	t.Run("disk_full", func(t *testing.T) {
		t.Parallel()
		tries := 0
		d := &spyDisk{fail: func(op, path string) error {
			if op == "create" && strings.Contains(path, "merged-") {
				tries++
				return syscall.ENOSPC
			}
			return nil
		}}
		require.ErrorIs(t, round(t, lakeAt(t, t.TempDir(), spied(t, d)), t.Context()), syscall.ENOSPC)
		require.Equal(t, 1, tries)
	})
	t.Run("ctx", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithCancel(t.Context())
		l := lakeAt(t, t.TempDir(), hooks{})
		l.wait = func(context.Context, time.Duration) error { // the first rest of the first merge
			stop()
			return nil
		}
		require.ErrorIs(t, round(t, l, ctx), context.Canceled)
	})
}

// It is put off for longer each time, and for an hour at most.
func TestAvoided(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var a avoided
	require.True(t, a.still(now), "for good")
	for _, minutes := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60, 60} {
		want := time.Duration(minutes) * time.Minute
		require.Equal(t, want, a.again(now))
		require.True(t, a.still(now))
		require.False(t, a.still(now.Add(want)))
	}
	a.tries = 1 << 40
	require.Equal(t, avoidMost, a.again(now))
}
