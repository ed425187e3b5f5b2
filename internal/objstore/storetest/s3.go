package storetest

import (
	"crypto/md5" //nolint:gosec // the ETag of S3
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// S3 shows a Store as the bucket "bucket" of an S3 server, for what only HTTP can do to a client. It knows what objstore
// asks for: one PUT, with If-None-Match or not, HEAD, GET, DELETE and a listing in one page. Signatures are not checked.
type S3 struct {
	Store *Store

	mu    sync.Mutex
	fault func(*http.Request) http.HandlerFunc
}

// SetFault has f look at each request before it is served; what it returns answers instead. nil: none.
func (s *S3) SetFault(f func(*http.Request) http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Refuse answers with an S3 error and does nothing.
func Refuse(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what a connection that breaks held is of no interest
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code) // as above
	}
}

// ServeHTTP implements http.Handler.
func (s *S3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		if answer := fault(r); answer != nil {
			answer(w, r)
			return
		}
	}
	s.Serve(w, r)
}

// Serve does what is asked, without a fault.
func (s *S3) Serve(w http.ResponseWriter, r *http.Request) {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPut:
		s.put(w, r, key)
	case r.Method == http.MethodDelete:
		s.Store.Remove(key)
		w.WriteHeader(http.StatusNoContent)
	case key == "":
		s.list(w, r.URL.Query().Get("prefix"))
	default:
		s.get(w, r, key)
	}
}

func (s *S3) put(w http.ResponseWriter, r *http.Request, key string) {
	body, err := io.ReadAll(r.Body)
	sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(body)))
	said := r.Header.Get("X-Amz-Checksum-Crc32")
	if err != nil || int64(len(body)) != r.ContentLength || said != "" && said != sum {
		Refuse(http.StatusBadRequest, "BadDigest")(w, r)
		return
	}
	s.Store.mu.Lock()
	defer s.Store.mu.Unlock()
	if _, taken := s.Store.objects[key]; taken && r.Header.Get("If-None-Match") == "*" {
		Refuse(http.StatusPreconditionFailed, "PreconditionFailed")(w, r)
		return
	}
	if s.Store.objects == nil {
		s.Store.objects = map[string][]byte{}
	}
	s.Store.objects[key] = body
	s.Store.ops = append(s.Store.ops, Op{"put", key})
	head(w, body)
}

// head says what the store knows of an object.
func head(w http.ResponseWriter, body []byte) {
	sum := md5.Sum(body) //nolint:gosec // see the import
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	w.Header().Set("X-Amz-Checksum-Crc32", base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(body))))
	w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
}

func (s *S3) get(w http.ResponseWriter, r *http.Request, key string) {
	body, ok := s.Store.Objects()[key]
	if !ok {
		Refuse(http.StatusNotFound, "NoSuchKey")(w, r)
		return
	}
	head(w, body)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client has gone
	}
}

func (s *S3) list(w http.ResponseWriter, prefix string) {
	var b strings.Builder
	b.WriteString("<ListBucketResult><IsTruncated>false</IsTruncated>")
	there := s.Store.Objects()
	for _, key := range slices.Sorted(maps.Keys(there)) {
		if strings.HasPrefix(key, prefix) {
			fmt.Fprintf(&b, "<Contents><Key>%s</Key><Size>%d</Size><LastModified>1970-01-01T00:00:00Z</LastModified></Contents>", key, len(there[key]))
		}
	}
	b.WriteString("</ListBucketResult>")
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, b.String()) // as above
}
