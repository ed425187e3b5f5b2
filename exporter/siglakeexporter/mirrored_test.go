package siglakeexporter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/pdata/testdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
)

// testMirror stands for the walmirror extension: a real mirror of the root that is attached, over a store in memory.
type testMirror struct {
	component.StartFunc
	component.ShutdownFunc

	t     *testing.T
	store *storetest.Store
}

func (x *testMirror) Attach(dir string) (*mirror.Mirror, error) {
	m, err := mirror.New(mirror.Options{Dir: dir, Store: x.store})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(x.t.Context()))
	var run sync.WaitGroup
	run.Go(func() { m.Run(ctx) })
	x.t.Cleanup(func() {
		stop()
		run.Wait()
	})
	return m, nil
}

// mirroredRig is an exporter over a real log with a mirror.
func mirroredRig(t *testing.T) (*rig, *storetest.Store) {
	t.Helper()
	r := newRig(t)
	r.factory = NewFactory()
	r.cfg.WAL.Directory = t.TempDir() + "/wal"
	id := component.MustNewID("walmirror")
	r.cfg.Mirror = &id
	store := &storetest.Store{}
	r.host.extensions = map[component.ID]component.Component{id: &testMirror{t: t, store: store}}
	return r, store
}

// segmentsIn counts the objects that are segments.
func segmentsIn(store *storetest.Store) (n int) {
	for key := range store.Objects() {
		if strings.HasSuffix(key, ".arrow") {
			n++
		}
	}
	return n
}

// F8: a success under mirrored comes after the object is confirmed; requests that come at once share one.
func TestMirrored_waits_for_the_object(t *testing.T) {
	t.Parallel()
	r, store := mirroredRig(t)
	r.cfg.Commit.MirroredSealAfter = time.Second
	e := r.logs(t)
	require.NoError(t, e.ConsumeLogs(withMode(t.Context(), "wait_for"), testdata.GenerateLogs(1)))
	require.Zero(t, segmentsIn(store), "wait_for waits for no object")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if err := e.ConsumeLogs(withMode(t.Context(), "mirrored"), testdata.GenerateLogs(1)); err != nil {
				t.Errorf("mirrored: %v", err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, segmentsIn(store))
	require.NoError(t, e.ConsumeLogs(withMode(t.Context(), "mirrored"), testdata.GenerateLogs(0)), "an empty request has nothing to wait for")
}

// A mirror that does not answer: DEADLINE_EXCEEDED without a hint to send again, the rows are stored, and it is no trouble of
// the log's.
func TestMirrored_times_out(t *testing.T) {
	t.Parallel()
	r, store := mirroredRig(t)
	r.cfg.Commit.MirroredTimeout = 50 * time.Millisecond
	away := true
	var mu sync.Mutex
	store.SetHook(func(storetest.Op) *storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if away {
			return &storetest.Fault{Err: errors.New("503 SlowDown")}
		}
		return nil
	})
	e := r.logs(t)
	err := e.ConsumeLogs(withMode(t.Context(), "mirrored"), testdata.GenerateLogs(1))
	st := status.Convert(err)
	require.Equal(t, codes.DeadlineExceeded, st.Code())
	require.Contains(t, st.Message(), "the copy was not confirmed within 50ms; the rows are stored as under wait_for, and sending them again stores them twice (segment ")
	require.Empty(t, st.Details(), "no hint to send again")
	m, err := r.tel.GetMetric("siglake_commit_wait_timeouts_total")
	require.NoError(t, err)
	require.NotNil(t, m.Data)
	require.NotContains(t, r.host.statuses(), componentstatus.StatusRecoverableError)
	mu.Lock()
	away = false
	mu.Unlock()
	require.Eventually(t, func() bool { return segmentsIn(store) == 1 }, time.Minute, 10*time.Millisecond, "the copy comes later")
}

// Those who wait for the mirror leave room for the others; one too many is told to come again, and nothing is written.
func TestMirrored_waiters_are_bounded(t *testing.T) {
	t.Parallel()
	r, store := mirroredRig(t)
	r.cfg.WAL.MaxWaiting = 2
	store.SetHook(func(op storetest.Op) *storetest.Fault {
		if strings.HasSuffix(op.Key, ".arrow") {
			return &storetest.Fault{Hang: true}
		}
		return nil
	})
	e := r.logs(t)
	waiting, leave := context.WithCancel(withMode(t.Context(), "mirrored"))
	defer leave()
	first := make(chan error, 1)
	go func() { first <- e.ConsumeLogs(waiting, testdata.GenerateLogs(1)) }()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(store.Ops(), func(op storetest.Op) bool { return strings.HasSuffix(op.Key, ".arrow") })
	}, time.Minute, time.Millisecond, "the first one is on the disk and waits")
	err := e.ConsumeLogs(withMode(t.Context(), "mirrored"), testdata.GenerateLogs(1))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "too many requests wait for the mirror or for a commit")
	require.NoError(t, e.ConsumeLogs(withMode(t.Context(), "wait_for"), testdata.GenerateLogs(1)))
	leave()
	require.Equal(t, codes.DeadlineExceeded, status.Code(<-first))
}

// What names a mirror gets it, or does not start.
func TestMirrored_needs_its_mirror(t *testing.T) {
	t.Parallel()
	id := component.MustNewID("walmirror")
	for name, tc := range map[string]struct {
		there map[component.ID]component.Component
		mode  Mode
		named bool
		want  string
	}{
		"not there":    {named: true, mode: "wait_for", want: `mirror: no extension "walmirror" runs; add it to service::extensions, or remove exporters::siglake::mirror`},
		"another kind": {named: true, mode: "wait_for", there: map[component.ID]component.Component{id: nil}, want: `mirror: extension "walmirror" is no walmirror`},
		"idle":         {named: true, mode: "mirrored", there: map[component.ID]component.Component{id: &idleMirror{}}, want: `commit::default: "mirrored" needs a mirror, and none is configured`},
		"not named":    {mode: "mirrored", want: `commit::default: "mirrored" needs a mirror, and none is configured`},
	} {
		r := newRig(t)
		r.cfg.Commit.Default = tc.mode
		if tc.named {
			r.cfg.Mirror = &id
		}
		r.host.extensions = tc.there
		e, err := r.factory.CreateLogs(t.Context(), r.set, r.cfg)
		require.NoError(t, err)
		require.ErrorContains(t, e.Start(t.Context(), r.host), tc.want, name)
		require.NoError(t, e.Shutdown(t.Context()))
		require.Len(t, r.log.opened, r.log.closes, "%s: what was opened is closed", name)
	}
}

// idleMirror is a walmirror without a bucket.
type idleMirror struct {
	component.StartFunc
	component.ShutdownFunc
}

func (*idleMirror) Attach(string) (*mirror.Mirror, error) { return nil, nil } //nolint:nilnil // as the extension
