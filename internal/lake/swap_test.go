package lake

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// LAKE-1: an update that met no row, a requirement that did not hold and a 409 are all conflicts. Many lakes, each with
// its own connections, append to one table at once: every row is in it once.
func TestPlaces_many_at_once(t *testing.T) {
	t.Parallel()
	for _, p := range places() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			const lakes, each = 4, 4
			opt := p.opt(t)
			events(t, lakeOf(t, opt, hooks{}))
			var wg sync.WaitGroup
			errs := make(chan error, lakes*each)
			var all []Segment
			for n := range lakes {
				tbl := events(t, lakeOf(t, opt, hooks{wait: sleep}))
				var own []Segment
				for i := range each {
					own = append(own, newSegment(t, uint64(n*each+i+1), 2))
				}
				all = append(all, own...)
				wg.Go(func() {
					for _, s := range own {
						_, err := tbl.Commit(context.Background(), []Segment{s})
						errs <- err
					}
				})
			}
			wg.Wait()
			close(errs)
			for err := range errs {
				require.NoError(t, err)
			}
			requireExactly(t, lakeOf(t, opt, hooks{}), all...)
		})
	}
}

// LAKE-1: what a REST catalog may answer to a commit. An error decides nothing: the lake looks, and each row is in the
// table once.
func TestREST_answers(t *testing.T) {
	t.Parallel()
	type fault = func(w http.ResponseWriter, do func() (int, any))
	for name, faults := range map[string][]fault{
		"conflict":     {func(w http.ResponseWriter, _ func() (int, any)) { send(w, http.StatusConflict, "stale") }},
		"server_error": {func(w http.ResponseWriter, _ func() (int, any)) { send(w, http.StatusInternalServerError, "boom") }},
		"landed_and_500": {func(w http.ResponseWriter, do func() (int, any)) {
			do()
			send(w, http.StatusInternalServerError, "boom")
		}},
		"landed_and_502": {func(w http.ResponseWriter, do func() (int, any)) { do(); send(w, http.StatusBadGateway, "boom") }},
		"landed_and_cut": {func(_ http.ResponseWriter, do func() (int, any)) { do(); panic(http.ErrAbortHandler) }},
		"cut": {
			func(http.ResponseWriter, func() (int, any)) { panic(http.ErrAbortHandler) },
			func(http.ResponseWriter, func() (int, any)) { panic(http.ErrAbortHandler) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRESTServer(t)
			l := lakeOf(t, Options{Catalog: "rest+" + s.URL, Warehouse: t.TempDir()}, hooks{})
			// Once for the creation of the table, and once for a commit.
			s.faults = faults
			tbl, _, err := l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
			for err != nil {
				tbl, _, err = l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
			}
			s.mu.Lock()
			s.faults = faults
			s.mu.Unlock()
			seg := newSegment(t, 1, 3)
			out, err := tbl.Commit(t.Context(), []Segment{seg})
			require.NoError(t, err)
			require.Equal(t, committed(seg), out.Committed)
			require.Empty(t, s.faults)
			requireExactly(t, l, seg)
		})
	}
}

// A catalog that does not answer is given up, and the outcome is then unknown until the next try finds out.
func TestREST_hangs_R33(t *testing.T) {
	t.Parallel()
	s := newRESTServer(t)
	l := lakeOf(t, Options{Catalog: "rest+" + s.URL, Warehouse: t.TempDir()},
		hooks{limits: limits{commitTimeout: 300 * time.Millisecond, attempts: 1}})
	tbl := events(t, l)
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release() // or a failing test waits for its own server
	done := make(chan struct{})
	s.faults = append(s.faults, func(_ http.ResponseWriter, do func() (int, any)) {
		defer close(done)
		<-held
		do()
	})
	seg := newSegment(t, 1, 3)
	_, err := tbl.Commit(t.Context(), []Segment{seg})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	release() // it lands late, when nobody waits any more
	<-done
	_, err = tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	requireExactly(t, l, seg)
}

// LOUD-1: a REST catalog restored from a backup stops the table, as any other.
func TestREST_catalog_gone_back(t *testing.T) {
	t.Parallel()
	s := newRESTServer(t)
	tbl := events(t, lakeOf(t, Options{Catalog: "rest+" + s.URL, Warehouse: t.TempDir()}, hooks{}))
	before := s.tables["siglake.events"]
	_, err := tbl.Commit(t.Context(), []Segment{newSegment(t, 1, 3)})
	require.NoError(t, err)
	s.mu.Lock()
	s.tables["siglake.events"] = before
	s.mu.Unlock()
	var back *GoneBackError
	_, err = tbl.Commit(t.Context(), []Segment{newSegment(t, 2, 3)})
	require.ErrorAs(t, err, &back)
}
