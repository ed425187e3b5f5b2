package mirror_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// overS3 is a rig whose store is reached by the S3 client over HTTP; r.store is what the server holds.
func overS3(t *testing.T) (*rig, *storetest.S3) {
	t.Helper()
	r := newRig(t)
	s3 := &storetest.S3{Store: r.store}
	server := httptest.NewServer(s3)
	t.Cleanup(server.Close)
	store, err := objstore.Open(t.Context(), "s3://bucket", objstore.Options{S3: objstore.S3{
		Endpoint: server.URL, AccessKeyID: "id", SecretAccessKey: "not-to-be-seen",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	r.opt.Store, r.opt.AttemptTimeout, r.opt.SweepInterval = store, 2*time.Second, time.Second
	return r, s3
}

func eventually(t *testing.T, what func() bool, msg string) {
	t.Helper()
	require.Eventually(t, what, 2*time.Minute, 10*time.Millisecond, msg)
}

// F5, F7: what an S3 server may do to a request, through the real client, more often than the client tries by itself. Rows are
// acknowledged meanwhile, every segment arrives whole and once, the pins go, and the metrics tell.
func TestMirror_F7_over_http(t *testing.T) {
	t.Parallel()
	put, stat := http.MethodPut, http.MethodHead
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	after := func(s3 *storetest.S3, answer http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			s3.Serve(httptest.NewRecorder(), r)
			answer(w, r)
		}
	}
	for _, tc := range []struct {
		name   string
		method string
		times  int    // requests that meet it; the client tries one thing three times, and a reset on an old connection does not count
		reason string // what is counted
		answer func(*storetest.S3) http.HandlerFunc
	}{
		{"an error after success", put, 1, "", func(s *storetest.S3) http.HandlerFunc { return after(s, storetest.Refuse(500, "InternalError")) }},
		{"a reset after success", put, 1, "", func(s *storetest.S3) http.HandlerFunc { return after(s, abort) }},
		{"a hang", put, 2, "upload", func(*storetest.S3) http.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}
		}},
		{"503 SlowDown", put, 7, "upload", func(*storetest.S3) http.HandlerFunc { return storetest.Refuse(503, "SlowDown") }},
		{"403 RequestTimeTooSkewed", put, 4, "upload", func(*storetest.S3) http.HandlerFunc { return storetest.Refuse(403, "RequestTimeTooSkewed") }},
		{"200 with an error body", put, 3, "", func(*storetest.S3) http.HandlerFunc { return storetest.Refuse(200, "InternalError") }},
		{"a reset in the middle", put, 25, "upload", func(*storetest.S3) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.CopyN(io.Discard, r.Body, 100)
				abort(w, r)
			}
		}},
		{"the confirmation is refused", stat, 7, "post_upload_stat", func(*storetest.S3) http.HandlerFunc { return storetest.Refuse(503, "SlowDown") }},
		{"the confirmation is reset", stat, 25, "post_upload_stat", func(*storetest.S3) http.HandlerFunc { return abort }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, s3 := overS3(t)
			r.start()
			eventually(t, func() bool { return r.store.Objects()["siglake-mirror.json"] != nil }, "the marker")
			var mu sync.Mutex
			left := tc.times
			s3.SetFault(func(req *http.Request) http.HandlerFunc {
				mu.Lock()
				defer mu.Unlock()
				if req.Method != tc.method || !strings.HasSuffix(req.URL.Path, ".arrow") || left == 0 {
					return nil
				}
				left--
				return tc.answer(s3)
			})
			ids := r.sealed(3)
			eventually(t, func() bool { return len(r.pins()) == 0 }, "the pins go")
			for _, id := range ids {
				require.Equal(t, r.file(id), r.store.Objects()[key(id)])
				require.NoError(t, r.m.Confirmed(t.Context(), id))
			}
			mu.Lock()
			require.Zero(t, left)
			mu.Unlock()
			eventually(t, func() bool { return r.counter("segments_total", "ok") == 3 }, "each is counted once")
			require.Zero(t, r.counter("conflicts_total"))
			if tc.reason != "" {
				require.Positive(t, r.counter("failures_total", tc.reason))
			}
			require.Zero(t, r.stop(time.Minute))
		})
	}
}

// F5: a store that answers 400 to a checksum that it does not know, in a header or behind the body, is spoken to without.
func TestMirror_F5_a_store_without_checksums(t *testing.T) {
	t.Parallel()
	r, s3 := overS3(t)
	s3.SetFault(func(req *http.Request) http.HandlerFunc {
		sha := req.Header.Get("X-Amz-Content-Sha256")
		if req.Header.Get("X-Amz-Checksum-Crc32") != "" || req.Header.Get("X-Amz-Trailer") != "" || strings.Contains(sha, "UNSIGNED") || strings.Contains(sha, "STREAMING") {
			return storetest.Refuse(400, "XAmzContentSHA256Mismatch")
		}
		return nil
	})
	r.start()
	ids := r.sealed(3)
	eventually(t, func() bool { return len(r.pins()) == 0 }, "the pins go")
	for _, id := range ids {
		require.Equal(t, r.file(id), r.store.Objects()[key(id)])
	}
	require.Zero(t, r.counter("failures_total"))
	require.Zero(t, r.stop(time.Minute))
}

// F6: the store knows our credentials no more, for a while. Rows are acknowledged, all is kept, and when they are good again
// all is copied.
func TestMirror_F6_credentials_expire(t *testing.T) {
	t.Parallel()
	r, s3 := overS3(t)
	r.start()
	first := r.sealed(1)
	eventually(t, func() bool { return len(r.pins()) == 0 }, "it works")
	s3.SetFault(func(*http.Request) http.HandlerFunc { return storetest.Refuse(403, "ExpiredToken") })
	ids := r.sealed(20)
	eventually(t, func() bool {
		return r.counter("failures_total", "upload") >= 3 && r.counter("failures_total", "post_upload_stat") >= 3
	}, "the metrics tell")
	require.Len(t, r.pins(), 20)
	require.Len(t, r.store.Objects(), 2)
	s3.SetFault(nil)
	eventually(t, func() bool { return len(r.pins()) == 0 }, "all is copied")
	for _, id := range append(first, ids...) {
		require.Equal(t, r.file(id), r.store.Objects()[key(id)])
	}
	require.Zero(t, r.counter("sources_gone_total"))
	require.Zero(t, r.stop(time.Minute))
}

// F7: recovery over a server that resets in the middle of a body, hangs up, slows down, and sends half of an object as if it
// were all: each object is asked for again, and no half of one is ever written.
func TestRestore_F7_over_http(t *testing.T) {
	t.Parallel()
	r, s3 := overS3(t)
	r.start()
	ids := r.sealed(5)
	eventually(t, func() bool { return len(r.pins()) == 0 }, "the pins go")
	require.Zero(t, r.stop(time.Minute))
	half := func(length bool) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			rec := httptest.NewRecorder()
			s3.Serve(rec, req)
			body := rec.Body.Bytes()
			if length { // it announces all of it
				w.Header().Set("Content-Length", rec.Header().Get("Content-Length"))
			}
			_, _ = w.Write(body[:len(body)/2])
			if length {
				panic(http.ErrAbortHandler)
			}
		}
	}
	faults := map[string]http.HandlerFunc{
		key(ids[0]): half(true), key(ids[1]): half(false), key(ids[2]): storetest.Refuse(503, "SlowDown"), key(ids[3]): storetest.Refuse(403, "RequestTimeTooSkewed"),
	}
	var mu sync.Mutex
	met := map[string]int{}
	s3.SetFault(func(req *http.Request) http.HandlerFunc {
		mu.Lock()
		defer mu.Unlock()
		k := strings.TrimPrefix(req.URL.Path, "/bucket/")
		if faults[k] == nil || met[k] == 2 {
			return nil
		}
		met[k]++
		return faults[k]
	})
	disk := simfs.New(nil)
	rep, err := mirror.Restore(t.Context(), mirror.RestoreOptions{FS: disk, Dir: rootDir, Store: r.opt.Store})
	require.NoError(t, err)
	require.Empty(t, rep.Failed)
	require.Empty(t, rep.Unreadable)
	require.Equal(t, 5, rep.Lanes[0].Restored)
	require.Len(t, met, 4)
	root, err := segment.Open(disk, rootDir)
	require.NoError(t, err)
	l, err := root.Lane("t", "events")
	require.NoError(t, err)
	for _, id := range ids {
		f, err := disk.Open(l.Path(segment.Sealed, id.FileName()))
		require.NoError(t, err)
		require.Equal(t, r.file(id), content(t, f))
	}
}
