package lake

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// The cases of the reference system (R, docs/cases.md) that have no better home.

// Two writers commit at once, and the second attempt of one comes after the commit of the other: the ids of both are in the
// proof, also those of a third that merely looked them up.
func TestCommit_the_ids_of_two_writers_R3(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := &faultyCatalog{}
	l, other := lakeAt(t, dir, faults(f)), lakeAt(t, dir, hooks{})
	tbl, theirs := events(t, l), events(t, other)
	segs := []Segment{newSegment(t, 1, 3), newSegment(t, 2, 4), newSegment(t, 3, 5)}
	f.answers = []answer{
		after(func() {
			_, err := theirs.Commit(context.Background(), segs[1:2])
			require.NoError(t, err)
		}),
		after(func() {
			_, err := theirs.Commit(context.Background(), segs[2:])
			require.NoError(t, err)
		}),
	}
	_, err := tbl.Commit(t.Context(), segs[:1])
	require.NoError(t, err)
	st, err := tbl.load(t.Context())
	require.NoError(t, err)
	require.Equal(t, committed(segs...), st.proof.rows())
	requireExactly(t, l, segs...)
}

// Segments whose columns differ, because another version wrote them, share a commit: what one lacks is null in its rows.
func TestCommit_segments_of_different_columns_R25(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/layout1_logs.arrow")
	require.NoError(t, err)
	older, err := frame.Decode(bytes.NewReader(data), int64(len(data)), frame.DecodeOptions{})
	require.NoError(t, err)
	t.Cleanup(older.Release)
	first := Segment{ID: testID(t, time.Now(), 1), Batches: older.Batches, Rows: older.Rows}
	second := newSegment(t, 2, 4)
	require.False(t, first.Batches[0].Schema().Equal(second.Batches[0].Schema()))
	for name, segs := range map[string][]Segment{"older_first": {first, second}, "newer_first": {second, first}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lakeAt(t, t.TempDir(), hooks{})
			out, err := events(t, l).Commit(t.Context(), segs)
			require.NoError(t, err)
			require.Equal(t, committed(segs...), out.Committed)
			require.Len(t, metaOf(t, l).Snapshots(), 1)
			requireExactly(t, l, segs...)
		})
	}
}

// The proof is at its bound, by ids and by bytes, and stays there: commits go on, also one of more segments than it has room
// for, and whatever is offered again is known, listed or not.
func TestCommit_the_proof_at_its_bound_R29(t *testing.T) {
	t.Parallel()
	const entries, size = 6, 400
	for name, h := range map[string]hooks{"entries": {limits: limits{proofEntries: entries}}, "bytes": {limits: limits{proofBytes: size}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := lakeAt(t, dir, h)
			tbl := events(t, l)
			var all []Segment
			commit := func(n int) {
				var segs []Segment
				for range n {
					segs = append(segs, newSegment(t, uint64(len(all)+len(segs)), 2))
				}
				all = append(all, segs...)
				_, err := tbl.Commit(t.Context(), segs)
				require.NoError(t, err)
			}
			most := 0
			for range 20 {
				commit(2)
				most = max(most, len(metaOf(t, l).Properties()[propProof]))
			}
			require.Less(t, most, 2*size, "twenty commits of two take no more than the last few")
			commit(3 * entries)
			commit(1)
			st, err := tbl.load(t.Context())
			require.NoError(t, err)
			require.Less(t, len(st.proof.rows()), len(all)/2, "most are not listed any more")
			for _, from := range []*Lake{l, lakeAt(t, dir, h)} {
				out, err := events(t, from).Commit(t.Context(), all)
				require.NoError(t, err)
				require.Equal(t, Outcome{Committed: committed(all...), Duplicates: int64(2 * len(all))}, out)
			}
			requireExactly(t, l, all...)
		})
	}
}

// readsIO counts what is read, by kind.
type readsIO struct {
	*syncIO

	mu sync.Mutex
	n  map[string]int
}

func (r *readsIO) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := path.Ext(name)
	if strings.HasPrefix(path.Base(name), "snap-") {
		kind = "list"
	}
	r.n[kind]++
}

// take returns the counts and begins anew.
func (r *readsIO) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.n
	r.n = map[string]int{}
	return n
}

func (r *readsIO) Open(name string) (iceio.File, error) {
	r.count(name)
	return r.syncIO.Open(name)
}

func (r *readsIO) ReadFile(name string) ([]byte, error) {
	r.count(name)
	return r.syncIO.ReadFile(name)
}

// A commit reads the table's metadata and the list of its manifests, and no manifest and no data file, however many the table has.
func TestCommit_reads_no_manifest_R48(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	reads := &readsIO{syncIO: newSyncIO(osDisk{}), n: map[string]int{}}
	l := watchedLake(t, reads, reads.syncIO)
	tbl := events(t, l)
	setProperty(t, l, "events", table.ManifestMinMergeCountKey, "1000")
	var segs []Segment
	var early map[string]int
	for i := range 60 {
		rows := append(rowsAt(day0, 2), rowsAt(day0.Add(24*time.Hour), 2)...) // two files
		segs = append(segs, segment(t, testID(t, time.Now(), uint64(i)), rows))
		reads.take()
		_, err := tbl.Commit(t.Context(), segs[i:])
		require.NoError(t, err)
		n := reads.take()
		require.Zero(t, n[".avro"], "manifests read by commit %d", i)
		require.Zero(t, n[".parquet"], "data files read by commit %d", i)
		// Once more where it is looked whether manifests are to be merged: at the first, and then by each 500th at that property.
		require.LessOrEqual(t, n["list"], 1+map[int]int{1: 1}[i])
		if i == 5 {
			early = n
		}
		if i > 5 {
			require.Equal(t, early, n, "commit %d", i)
		}
	}
	require.Len(t, manifestFiles(t, l), 120)
	require.NotZero(t, reads.take()[".avro"], "they are counted")
	requireExactly(t, l, segs...)
}

// A REST catalog takes one request and does not answer it, whichever of all that making a table and committing to it are made of.
// The call ends by itself with an error, and the next one does the work: each row is there once.
func TestREST_every_call_may_hang_R33(t *testing.T) {
	t.Parallel()
	for k := 1; ; k++ {
		s := newRESTServer(t)
		var n, hung atomic.Int32
		held := make(chan struct{})
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if int(n.Add(1)) == k {
				hung.Add(1)
				<-held
				panic(http.ErrAbortHandler)
			}
			s.Config.Handler.ServeHTTP(w, r)
		}))
		l, err := open(t.Context(), Options{Catalog: "rest+" + front.URL, Warehouse: t.TempDir()},
			hooks{wait: noWait, limits: limits{commitTimeout: 2 * time.Second, attempts: 2}})
		failed := err != nil
		if failed {
			l, err = open(t.Context(), Options{Catalog: "rest+" + front.URL, Warehouse: t.TempDir()}, hooks{wait: noWait})
			require.NoError(t, err, "request %d", k)
		}
		seg := newSegment(t, 1, 3)
		commit := func() error {
			tbl, _, err := l.Ensure(t.Context(), "default", "events", otelarrow.Logs)
			if err != nil {
				return err
			}
			_, err = tbl.Commit(t.Context(), []Segment{seg})
			return err
		}
		for range 10 {
			if err = commit(); err == nil {
				break
			}
		}
		require.NoError(t, err, "request %d", k)
		close(held)
		requireExactly(t, l, seg)
		require.NoError(t, l.Close())
		front.Close()
		if hung.Load() == 0 {
			require.Greater(t, k, 5, "there was something to hang")
			return
		}
	}
}

// Tokens of a catalog are over as soon as they were used once. Each is exchanged for a new one in time, also in the middle of a
// commit, and no commit fails. D14.
func TestREST_tokens_expire_D14(t *testing.T) {
	t.Parallel()
	s := newRESTServer(t)
	var mu sync.Mutex
	given, used := 0, 0
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/oauth/tokens") {
			mu.Lock()
			given++
			body := map[string]any{"access_token": fmt.Sprint("token", given), "token_type": "bearer", "expires_in": 1}
			mu.Unlock()
			send(w, http.StatusOK, body)
			return
		}
		mu.Lock()
		var n int
		_, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer token%d", &n)
		fresh := err == nil && n > used
		used = max(used, n)
		mu.Unlock()
		if !fresh {
			send(w, http.StatusUnauthorized, "the token has expired")
			return
		}
		s.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	l := lakeOf(t, Options{Catalog: "rest+" + front.URL, Warehouse: t.TempDir(), REST: REST{Credential: "id:secret"}}, hooks{})
	tbl := events(t, l)
	var segs []Segment
	for i := range 10 {
		segs = append(segs, newSegment(t, uint64(i), 2))
		out, err := tbl.Commit(t.Context(), segs[i:])
		require.NoError(t, err)
		require.Equal(t, int64(2), out.RowsWritten)
	}
	requireExactly(t, l, segs...)
	mu.Lock()
	defer mu.Unlock()
	require.Greater(t, used, 2*len(segs))
}
