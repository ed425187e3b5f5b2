package objstore_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/servicetest"
)

// changing shows other bytes once they were read to their end: as a file that rots between digest and upload.
type changing struct {
	body []byte
	read bool
}

func (c *changing) ReadAt(p []byte, off int64) (int, error) {
	n, err := bytes.NewReader(c.body).ReadAt(p, off)
	if c.read && n > 0 {
		p[0]++
	}
	c.read = c.read || off+int64(n) == int64(len(c.body))
	return n, err
}

// A real S3 server keeps the promises of Store, in both checksum modes; it compares the CRC, and shows it.
func TestConformance_s3(t *testing.T) {
	t.Parallel()
	s3, err := servicetest.Start("s3")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s3.Close()) })
	for _, checksum := range []string{objstore.WhenRequired, objstore.WhenSupported} {
		s, err := objstore.Open(t.Context(), "s3://"+s3.Info["bucket"]+"/"+checksum, objstore.Options{S3: objstore.S3{
			Endpoint: s3.Info["endpoint"], Region: s3.Info["region"], AccessKeyID: s3.Info["access_key"], SecretAccessKey: s3.Info["secret_key"], Checksum: checksum,
		}})
		require.NoError(t, err)
		require.ErrorContains(t, s.Put(t.Context(), "rotten", objstore.NewContent(&changing{body: []byte("rows")}, 4)), "BadDigest")
		_, err = s.Stat(t.Context(), "rotten")
		require.ErrorIs(t, err, objstore.ErrNotFound)
		require.NoError(t, s.Put(t.Context(), "sound", content([]byte("rows"))))
		info, err := s.Stat(t.Context(), "sound")
		require.NoError(t, err)
		require.Equal(t, crc32.ChecksumIEEE([]byte("rows")), *info.CRC32)
		require.NoError(t, s.Delete(t.Context(), "sound"))
		conformance(t, s)
	}
	wrong, err := objstore.Open(t.Context(), "s3://"+s3.Info["bucket"], objstore.Options{S3: objstore.S3{
		Endpoint: s3.Info["endpoint"], Region: s3.Info["region"], AccessKeyID: s3.Info["access_key"], SecretAccessKey: "not-to-be-seen",
	}})
	require.NoError(t, err, "nothing is sent yet")
	_, err = wrong.Stat(t.Context(), "x")
	require.Error(t, err)
	require.NotErrorIs(t, err, objstore.ErrNotFound, "who may not look knows nothing")
	require.NotContains(t, err.Error(), "not-to-be-seen")
	require.NoError(t, wrong.Close())
}

// stub is an S3 server that answers as told and keeps the requests.
type stub struct {
	mu       sync.Mutex
	requests []*http.Request
	bodies   [][]byte
	answers  []func(w http.ResponseWriter) // then 200
	deaf     bool                          // it looks at no CRC, as old stores
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what a cut-off request holds is of no interest
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, body)
	if len(s.answers) > 0 {
		answer := s.answers[0]
		s.answers = s.answers[1:]
		answer(w)
		return
	}
	if sum := r.Header.Get("X-Amz-Checksum-Crc32"); sum != "" && !s.deaf {
		w.Header().Set("X-Amz-Checksum-Crc32", sum)
	}
	w.Header().Set("ETag", `"x"`)
}

// fails answers with an S3 error.
func fails(code int, name string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
		w.WriteHeader(code)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", name)
	}
}

func openStub(t *testing.T, s *stub) objstore.Store {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	store, err := objstore.Open(t.Context(), "s3://bucket/dir", objstore.Options{S3: objstore.S3{
		Endpoint: server.URL, AccessKeyID: "id", SecretAccessKey: "not-to-be-seen",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func putStub(ctx context.Context, t *testing.T, store objstore.Store) error {
	t.Helper()
	return store.Put(ctx, "t/events/x.arrow", content([]byte("rows")))
}

// F5: a write is one plain PUT: no aws-chunked trailer, which some stores answer with 400, a CRC that is signed, and
// create-only.
func TestS3_F5_plain_put(t *testing.T) {
	t.Parallel()
	s := &stub{}
	store := openStub(t, s)
	for range 2 {
		require.NoError(t, putStub(t.Context(), t, store))
	}
	require.Len(t, s.requests, 2)
	for i, r := range s.requests {
		require.Equal(t, "PUT /bucket/dir/t/events/x.arrow", r.Method+" "+r.URL.Path)
		require.Equal(t, "rows", string(s.bodies[i]))
		require.Equal(t, "*", r.Header.Get("If-None-Match"))
		require.Equal(t, "Cov0oQ==", r.Header.Get("X-Amz-Checksum-Crc32"))
		require.Regexp(t, "SignedHeaders=[a-z0-9;-]*x-amz-checksum-crc32", r.Header.Get("Authorization"))
		require.Equal(t, "UNSIGNED-PAYLOAD", r.Header.Get("X-Amz-Content-Sha256"))
		require.Empty(t, r.Header.Get("Content-Md5"))
		require.Empty(t, r.Header.Get("X-Amz-Trailer"))
		require.Empty(t, r.Header.Get("Content-Encoding"))
	}
}

// requirePlain: the store is asked to compare the MD5, and the body is signed.
func requirePlain(t *testing.T, r *http.Request) {
	t.Helper()
	require.Equal(t, "3zR6NzuPkqoK492SCl7C9g==", r.Header.Get("Content-Md5"))
	require.Equal(t, "df347a373b8f92aa0ae3dd920a5ec2f6", r.Header.Get("X-Amz-Meta-Siglake-Md5"))
	require.Empty(t, r.Header.Get("X-Amz-Checksum-Crc32"))
	require.Regexp(t, "^[0-9a-f]{64}$", r.Header.Get("X-Amz-Content-Sha256"))
	require.Empty(t, r.Header.Get("X-Amz-Trailer"))
	require.Empty(t, r.Header.Get("Content-Encoding"))
	require.Equal(t, "*", r.Header.Get("If-None-Match"))
}

// F5: a store that looks at no CRC, or refuses one, or an unsigned body, is asked to compare what every store compares.
func TestS3_F5_stores_without_crc(t *testing.T) {
	t.Parallel()
	t.Run("ignored", func(t *testing.T) {
		t.Parallel()
		s := &stub{deaf: true}
		store := openStub(t, s)
		for range 2 {
			require.NoError(t, putStub(t.Context(), t, store))
		}
		require.Len(t, s.requests, 2)
		requirePlain(t, s.requests[1])
	})
	for code, answer := range map[int]string{400: "InvalidArgument", 501: "NotImplemented", 403: "AccessDenied"} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			s := &stub{answers: []func(http.ResponseWriter){fails(code, answer)}}
			store := openStub(t, s)
			for range 2 {
				require.NoError(t, putStub(t.Context(), t, store))
			}
			require.Len(t, s.requests, 3)
			for _, r := range s.requests[1:] {
				requirePlain(t, r)
			}
		})
	}
	t.Run("stat", func(t *testing.T) {
		t.Parallel()
		s := &stub{answers: []func(http.ResponseWriter){fails(400, "InvalidArgument")}}
		info, err := openStub(t, s).Stat(t.Context(), "x")
		require.NoError(t, err)
		require.Nil(t, info.CRC32)
		require.Len(t, s.requests, 2)
		require.Equal(t, "ENABLED", s.requests[0].Header.Get("X-Amz-Checksum-Mode"))
		require.Empty(t, s.requests[1].Header.Get("X-Amz-Checksum-Mode"))
	})
	t.Run("other bytes came", func(t *testing.T) {
		t.Parallel()
		s := &stub{answers: []func(http.ResponseWriter){fails(400, "BadDigest")}}
		store := openStub(t, s)
		require.ErrorContains(t, putStub(t.Context(), t, store), "BadDigest")
		require.NoError(t, putStub(t.Context(), t, store))
		require.Len(t, s.requests, 2)
		require.NotEmpty(t, s.requests[1].Header.Get("X-Amz-Checksum-Crc32"))
	})
}

// F7: a refused signature and a store that is slow end in a success when it is tried again, with the body sent whole; what is
// given up is an error that is none of ours and holds no secret.
func TestS3_F7_answers(t *testing.T) {
	t.Parallel()
	t.Run("skewed clock and slow down", func(t *testing.T) {
		t.Parallel()
		s := &stub{answers: []func(http.ResponseWriter){fails(403, "RequestTimeTooSkewed"), fails(503, "SlowDown")}}
		store := openStub(t, s)
		require.ErrorContains(t, putStub(t.Context(), t, store), "RequestTimeTooSkewed")
		require.NoError(t, putStub(t.Context(), t, store))
		require.Len(t, s.requests, 3)
		for _, b := range s.bodies {
			require.Equal(t, "rows", string(b), "the body is sent whole each time")
		}
	})
	t.Run("reset in the middle", func(t *testing.T) {
		t.Parallel()
		s := &stub{answers: []func(http.ResponseWriter){func(http.ResponseWriter) { panic(http.ErrAbortHandler) }}}
		require.NoError(t, putStub(t.Context(), t, openStub(t, s)))
		require.Len(t, s.requests, 2)
	})
	for _, code := range []string{"AccessDenied", "XAmzContentSHA256Mismatch", "InvalidAccessKeyId"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := &stub{answers: []func(http.ResponseWriter){fails(400, code), fails(400, code), fails(400, code)}}
			err := putStub(t.Context(), t, openStub(t, s))
			require.ErrorContains(t, err, code)
			require.NotErrorIs(t, err, objstore.ErrExists)
			require.NotContains(t, err.Error(), "not-to-be-seen")
			require.NotContains(t, err.Error(), "Signature=")
		})
	}
	t.Run("exists", func(t *testing.T) {
		t.Parallel()
		s := &stub{answers: []func(http.ResponseWriter){fails(412, "PreconditionFailed")}}
		require.ErrorIs(t, putStub(t.Context(), t, openStub(t, s)), objstore.ErrExists)
	})
}
