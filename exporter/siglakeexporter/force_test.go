package siglakeexporter

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/pdata/testdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

// forceRig is an exporter over a real log whose drain is the test.
type forceRig struct {
	*rig
	lane segment.Lane
}

func newForceRig(t *testing.T) forceRig {
	t.Helper()
	r := newRig(t)
	r.factory = NewFactory()
	r.cfg.WAL.Directory = filepath.Join(t.TempDir(), "wal")
	root, err := segment.Create(vfs.OS(), r.cfg.WAL.Directory)
	require.NoError(t, err)
	lane, err := root.Lane("default", "events")
	require.NoError(t, err)
	require.NoError(t, lane.Prepare())
	lock, err := vfs.OS().Lock(filepath.Join(r.cfg.WAL.Directory, segment.DrainLockName), "the test")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lock.Close()) })
	return forceRig{r, lane}
}

func (r forceRig) names(t *testing.T, st segment.State) (names []string) {
	t.Helper()
	entries, _, err := r.lane.List(st)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// sealed waits until something is, without a word from anybody.
func (r forceRig) sealed(t *testing.T) []string {
	t.Helper()
	var names []string
	require.Eventually(t, func() bool { names = r.names(t, segment.Sealed); return len(names) > 0 }, time.Minute, time.Millisecond)
	return names
}

func (r forceRig) move(t *testing.T, from, to segment.State, names []string) {
	t.Helper()
	_, err := r.lane.Move(from, to, names)
	require.NoError(t, err)
}

// A request under force is sealed at once, wakes the drain, and succeeds when its segment is in committed/ and never before:
// not when it has left sealed/ for anywhere else.
func TestForce_only_what_is_committed_T15(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []segment.State{segment.Processing, segment.Orphans, segment.Poison} {
		t.Run(string(elsewhere), func(t *testing.T) {
			t.Parallel()
			r := newForceRig(t)
			e := r.logs(t)
			require.NoError(t, e.ConsumeLogs(withMode(t.Context(), "force"), testdata.GenerateLogs(0)), "an empty request has nothing to wait for")
			done := make(chan error, 1)
			go func() { done <- e.ConsumeLogs(withMode(t.Context(), "force"), testdata.GenerateLogs(1)) }()
			names := r.sealed(t)
			require.Len(t, names, 1)
			require.Eventually(t, func() bool {
				at, err := r.lane.Woken()
				require.NoError(t, err)
				return !at.IsZero()
			}, time.Minute, time.Millisecond)
			r.move(t, segment.Sealed, elsewhere, names)
			select {
			case err := <-done:
				require.Fail(t, "answered", "%v", err)
			case <-time.After(200 * time.Millisecond):
			}
			r.move(t, elsewhere, segment.Sealed, names) // released
			r.move(t, segment.Sealed, segment.Processing, names)
			r.move(t, segment.Processing, segment.Committed, names)
			require.NoError(t, <-done)
		})
	}
}

// Each of several requests waits for its own segment, also when another one's is committed.
func TestForce_each_waits_for_its_own_T15(t *testing.T) {
	t.Parallel()
	r := newForceRig(t)
	r.cfg.Commit.ForceTimeout = 3 * time.Second
	e := r.logs(t)
	ask := func() <-chan error {
		done := make(chan error, 1)
		go func() { done <- e.ConsumeLogs(withMode(t.Context(), "force"), testdata.GenerateLogs(1)) }()
		return done
	}
	first := ask()
	one := r.sealed(t)
	r.move(t, segment.Sealed, segment.Processing, one)
	second := ask()
	two := r.sealed(t)
	require.NotEqual(t, one, two)
	r.move(t, segment.Sealed, segment.Processing, two)
	r.move(t, segment.Processing, segment.Committed, two)
	require.NoError(t, <-second)
	err := <-first
	st := status.Convert(err)
	require.Equal(t, codes.DeadlineExceeded, st.Code())
	require.Equal(t, "force: the commit to the table was not reported within 3s; the rows are stored as under wait_for, and sending them again stores them twice (segment "+
		strings.TrimSuffix(one[0], ".arrow")+")", st.Message())
	require.Empty(t, st.Details(), "no hint to send again")
	require.Equal(t, map[string]int64{"mirrored": 0, "force": 1}, r.counts(t, "siglake_commit_wait_timeouts_total"))
	require.NotContains(t, r.host.statuses(), componentstatus.StatusRecoverableError, "it is no trouble of the log's")
}

// Those who wait for a commit leave room for the others.
func TestForce_waiters_are_bounded(t *testing.T) {
	t.Parallel()
	r := newForceRig(t)
	r.cfg.WAL.MaxWaiting = 2
	e := r.logs(t)
	waiting, leave := context.WithCancel(withMode(t.Context(), "force"))
	defer leave()
	first := make(chan error, 1)
	go func() { first <- e.ConsumeLogs(waiting, testdata.GenerateLogs(1)) }()
	r.sealed(t)
	err := e.ConsumeLogs(withMode(t.Context(), "force"), testdata.GenerateLogs(1))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "too many requests wait for the mirror or for a commit")
	require.NoError(t, e.ConsumeLogs(withMode(t.Context(), "wait_for"), testdata.GenerateLogs(1)))
	leave()
	require.Equal(t, codes.DeadlineExceeded, status.Code(<-first))
}

// Who asks for force where no drain runs has to choose another mode; who gets it by default comes again.
func TestForce_without_a_drain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Commit.Default = modeForce
	r.log.noDrain = wal.ErrNoDrain
	e := r.logs(t)
	err := e.ConsumeLogs(withMode(t.Context(), "force"), testdata.GenerateLogs(1))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "needs a drain on this write-ahead log, and none runs")
	err = e.ConsumeLogs(t.Context(), testdata.GenerateLogs(1))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Len(t, status.Convert(err).Details(), 1, "when to come again")
	require.Contains(t, status.Convert(err).Message(), "commit::default is force and no drain runs, nothing was written")
	r.log.noDrain = wal.ErrNoDrainYet
	err = e.ConsumeLogs(withMode(t.Context(), "force"), testdata.GenerateLogs(1))
	require.Equal(t, codes.Unavailable, status.Code(err), "at the start")
	require.NoError(t, e.ConsumeLogs(withMode(t.Context(), "wait_for"), testdata.GenerateLogs(1)))
	require.Len(t, r.log.taken(), 1)
}

// Under the shutdown nobody is told that a commit was seen, nor kept waiting for it.
func TestForce_ends_with_the_log(t *testing.T) {
	t.Parallel()
	r := newForceRig(t)
	e, err := r.factory.CreateLogs(t.Context(), r.set, r.cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), r.host))
	errs := make([]error, 3)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = e.ConsumeLogs(withMode(t.Context(), "force"), testdata.GenerateLogs(1)) })
	}
	r.sealed(t)
	require.NoError(t, e.Shutdown(t.Context()))
	all.Wait()
	for _, err := range errs {
		require.Error(t, err)
	}
	require.True(t, slices.ContainsFunc(errs, func(err error) bool {
		return status.Code(err) == codes.DeadlineExceeded && strings.Contains(err.Error(), "not reported before the shutdown; the rows are stored") && !errors.Is(err, context.DeadlineExceeded)
	}), "%v", errs)
}

// A pin says what the mirror has still to do and nothing of the table: the request is answered while it is there.
func TestForce_does_not_wait_for_the_pin_R46(t *testing.T) {
	t.Parallel()
	r := newForceRig(t)
	e := r.logs(t)
	done := make(chan error, 1)
	go func() { done <- e.ConsumeLogs(withMode(t.Context(), "force"), testdata.GenerateLogs(1)) }()
	names := r.sealed(t)
	require.NoError(t, vfs.OS().Link(r.lane.Path(segment.Sealed, names[0]), r.lane.Path(segment.MirrorPending, names[0])))
	r.move(t, segment.Sealed, segment.Processing, names)
	r.move(t, segment.Processing, segment.Committed, names)
	require.NoError(t, <-done)
	require.Equal(t, names, r.names(t, segment.MirrorPending))
}
