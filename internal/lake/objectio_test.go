package lake

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/objstore"
)

// s3Proxy stands before the S3 server, counts what it gives, and answers requests as it is told.
type s3Proxy struct {
	*httptest.Server
	served  atomic.Int64 // bytes of bodies
	aborted atomic.Int64 // uploads

	mu sync.Mutex
	// fault takes a request from the server, if it returns true.
	fault func(w http.ResponseWriter, r *http.Request) bool
}

// proxied returns a warehouse behind a proxy.
func proxied(tb testing.TB) (home string, access objstore.S3, p *s3Proxy) {
	tb.Helper()
	home, access = newBucketHome(tb)
	at, err := url.Parse(access.Endpoint)
	require.NoError(tb, err)
	p = &s3Proxy{}
	transport := &http.Transport{}
	behind := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = at.Scheme, at.Host, r.In.Host
		},
		Transport: transport,
		ModifyResponse: func(r *http.Response) error {
			p.served.Add(max(r.ContentLength, 0))
			return nil
		},
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete && r.URL.Query().Has("uploadId") {
			p.aborted.Add(1)
		}
		p.mu.Lock()
		fault := p.fault
		p.mu.Unlock()
		if fault == nil || !fault(w, r) {
			behind.ServeHTTP(w, r)
		}
	}))
	tb.Cleanup(func() {
		p.Close()
		transport.CloseIdleConnections()
	})
	access.Endpoint = p.URL
	return home, access, p
}

func (p *s3Proxy) set(fault func(http.ResponseWriter, *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// refuse answers PUTs of names with the suffix with an error that the SDK does not try again.
func refuse(suffix string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, suffix) {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body) // or the client may see a torn connection instead
		w.WriteHeader(http.StatusForbidden)
		return true
	}
}

// LAKE-1: a file that the store did not take fails the commit, whichever it is. The table stays readable, and the same
// segment offered again is in it once.
func TestS3_a_file_is_not_taken(t *testing.T) {
	t.Parallel()
	for name, suffix := range map[string]string{"data": ".parquet", "manifest": ".avro", "metadata": ".metadata.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, access, p := proxied(t)
			opt := Options{Catalog: newDatabase(t), Warehouse: home, S3: access}
			l := lakeOf(t, opt, hooks{limits: limits{attempts: 2}})
			tbl := events(t, l)
			first, second := newSegment(t, 1, 3), newSegment(t, 2, 4)
			_, err := tbl.Commit(t.Context(), []Segment{first})
			require.NoError(t, err)
			p.set(refuse(suffix))
			_, err = tbl.Commit(t.Context(), []Segment{second})
			require.Error(t, err)
			requireExactly(t, l, first)
			p.set(nil)
			_, err = tbl.Commit(t.Context(), []Segment{second})
			require.NoError(t, err)
			requireExactly(t, l, first, second)
		})
	}
}

// A store that takes a request and never answers ends the commit in bounded time.
func TestS3_hangs_R33(t *testing.T) {
	t.Parallel()
	home, access, p := proxied(t)
	l := lakeOf(t, Options{Catalog: newDatabase(t), Warehouse: home, S3: access}, hooks{limits: limits{storePatience: 5 * time.Second}})
	tbl := events(t, l)
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	p.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, ".parquet") {
			<-held
			panic(http.ErrAbortHandler)
		}
		return false
	})
	seg := newSegment(t, 1, 3)
	_, err := tbl.Commit(t.Context(), []Segment{seg})
	require.ErrorIs(t, err, errStalled)
	release()
	p.set(nil)
	_, err = tbl.Commit(t.Context(), []Segment{seg})
	require.NoError(t, err)
	requireExactly(t, l, seg)
}

// An object in parts is shown whole or not at all, and what was sent of one that is not shown is removed.
func TestS3_parts(t *testing.T) {
	t.Parallel()
	home, access, p := proxied(t)
	s := newStores(access, time.Minute)
	defer func() { require.NoError(t, s.Close()) }()
	body := make([]byte, 3*partBytes)
	write := func(name string) *objectWriter {
		w, err := s.Create(home + "/" + name)
		require.NoError(t, err)
		o, ok := w.(*objectWriter)
		require.True(t, ok)
		_, _ = o.Write(body) // a failure shows in Close at the latest
		return o
	}
	gone := func(name string) {
		_, err := s.Open(home + "/" + name)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	require.NoError(t, write("whole").Close())

	write("abandoned").Abandon()
	gone("abandoned")
	require.Equal(t, int64(1), p.aborted.Load())

	p.set(func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Query().Get("partNumber") == "2" && refuse("")(w, r)
	})
	w := write("torn")
	require.Error(t, w.Close())
	require.Error(t, w.Close(), "it stays failed")
	gone("torn")
	require.Equal(t, int64(2), p.aborted.Load())
	p.set(nil)

	// What is read of the whole one is fetched, and no more.
	before := p.served.Load()
	f, err := s.Open(home + "/whole")
	require.NoError(t, err)
	some := make([]byte, 100)
	for _, at := range []int64{0, partBytes - 50, int64(len(body)) - 100} {
		_, err := f.ReadAt(some, at)
		require.NoError(t, err)
	}
	require.Equal(t, int64(300), p.served.Load()-before-int64(len(body)), "the size of the answer to HEAD, and the ranges")
	n, err := f.ReadAt(some, int64(len(body))-7)
	require.Equal(t, 7, n)
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, f.Close())

	var seen []string
	require.NoError(t, s.WalkDir(home, func(name string, _ fs.DirEntry, err error) error {
		seen = append(seen, name)
		return err
	}))
	require.Equal(t, []string{home, home + "/whole"}, seen)
	require.NoError(t, s.Remove(home+"/whole"))
	require.ErrorIs(t, s.Remove(home+"/whole"), fs.ErrNotExist)
}
