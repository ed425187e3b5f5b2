package drain

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

func TestLate(t *testing.T) {
	t.Parallel()
	sealed := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	ns := func(by time.Duration) int64 { return sealed.Add(by).UnixNano() }
	for _, tc := range []struct {
		name string
		h    frame.Header
		want bool
	}{
		{"of_now", frame.Header{MinTime: ns(-time.Minute), MaxTime: ns(0)}, false},
		{"of_yesterday", frame.Header{MinTime: ns(-23 * time.Hour), MaxTime: ns(0)}, false},
		{"not_known", frame.Header{Partial: true}, false},
		{"one_row_of_last_week", frame.Header{MinTime: ns(-7 * day), MaxTime: ns(0)}, true},
		{"one_row_of_next_week", frame.Header{MinTime: ns(0), MaxTime: ns(7 * day)}, true},
		{"one_row_of_1970", frame.Header{MinTime: 1, MaxTime: ns(0)}, true},
	} {
		require.Equal(t, tc.want, late(tc.h, sealed), tc.name)
	}
}

// 04 §1: late rows and those of today take turns, a batch each, oldest first: neither waits until the other's backlog is
// drained. They share no commit.
func TestTurns_of_late_and_todays(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	var order [][]string
	w.tables.get("events").before = func(_ context.Context, segs []lake.Segment) error {
		var batch []string
		for _, s := range segs {
			batch = append(batch, s.ID+".arrow")
		}
		order = append(order, batch)
		return nil
	}
	var late, today []string
	for range 6 {
		late = append(late, w.seal(spec{at: time.Now().AddDate(-1, 0, 0)}))
	}
	for range 4 {
		today = append(today, w.seal(spec{at: time.Now()}))
	}
	for i, name := range slices.Concat(late, today) {
		w.age(w.lane("events").Path(segment.Sealed, name), time.Hour-time.Duration(i)*time.Second)
	}
	size := int64(len(encode(t, spec{at: time.Now()})))
	w.opt.MaxBytesInFlight = 9 * size // four of today, two late ones
	w.once()
	require.Equal(t, [][]string{today, late[:2], late[2:4], late[4:]}, order)

	order = nil
	w.opt.MaxBytesInFlight = 5 * size // two of today, one late
	more := []string{w.seal(spec{at: time.Now()}), w.seal(spec{at: time.Now()}), w.seal(spec{at: time.Now()}), w.seal(spec{at: time.Now()})}
	old := []string{w.seal(spec{at: time.Now().AddDate(-1, 0, 0)}), w.seal(spec{at: time.Now().AddDate(-1, 0, 0)})}
	for i, name := range slices.Concat(more, old) {
		w.age(w.lane("events").Path(segment.Sealed, name), time.Hour-time.Duration(i)*time.Second)
	}
	w.once()
	require.Equal(t, [][]string{more[:2], old[:1], more[2:], old[1:]}, order)
	w.accounted()
}

// The more files the late rows of a lane make, the longer the next ones wait for company; those of today do not.
func TestPace_of_late_segments(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.opt.GateAge, w.opt.GateBytes = 10*time.Second, 1<<30
	_, l := w.laneOf("events")
	table := w.tables.get("events")
	old := time.Now().AddDate(-1, 0, 0)
	pass := func(age time.Duration, at time.Time, files int64) int {
		t.Helper()
		table.files = files
		w.age(w.lane("events").Path(segment.Sealed, w.seal(spec{at: at})), age)
		w.pass(l)
		return w.states("events")[segment.Sealed]
	}
	require.Equal(t, 0, pass(10*time.Second, old, 100), "nothing is known of its files")
	require.Equal(t, 1, pass(99*time.Second, old, 100))
	require.Equal(t, 1, pass(10*time.Second, time.Now(), 1), "of today: it alone goes")
	require.Equal(t, 0, pass(101*time.Second, old, 100_000), "both late ones share the files")
	require.Equal(t, 1, pass(longestLate-time.Second, old, 2))
	require.Equal(t, 0, pass(longestLate, old, 2), "no longer than that")
	require.Equal(t, 0, pass(10*time.Second, old, 2), "now that there are few")
	require.Equal(t, 5, table.commits)
	w.accounted()
}

// Rows of more days than a commit takes: their segment goes on in its next turn, and what was sealed after it is not held
// up meanwhile, nor is another lane. Each row once.
func TestCut_segments_hold_up_nothing(t *testing.T) {
	t.Parallel()
	w := onDisk(t)
	w.seal(spec{rows: 30, at: time.Now(), days: 30})
	table := w.tables.get("events")
	table.most = 3
	_, l := w.laneOf("events")
	var done []int
	table.before = func(_ context.Context, segs []lake.Segment) error {
		if segs[0].Rows == 30 {
			done = append(done, w.states("events")[segment.Committed])
			w.seal(spec{rows: 1, at: time.Now()})
		}
		return nil
	}
	w.pass(l)
	require.Equal(t, map[segment.State]int{segment.Committed: 11}, w.states("events"))
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, done, "what was sealed during a part is there before the next")
	require.Equal(t, int64(9), l.d.m.cut.sum.Load())
	w.accounted()
}
