package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/siglakecol/siglakecol/testbed/internal/services"
)

// discard is an S3 server that remembers of an object what a HEAD tells, and its bytes only where they are few. It
// compares nothing: its CPU is that of reading a socket, and belongs to this process.
type discard struct {
	mu      sync.Mutex
	objects map[string]kept
}

type kept struct {
	size  int64
	crc   string
	etag  string
	small []byte
}

// keepBelow is the size up to which bytes are kept: the marker of a mirror is read back.
const keepBelow = 4 << 10

func (d *discard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	o, ok := d.objects[r.URL.Path]
	d.mu.Unlock()
	switch {
	case r.Method == http.MethodPut:
		d.put(w, r, ok)
	case r.URL.Query().Has("list-type"):
		_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>") // a client that hung up
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>") // likewise
		}
	case r.Method == http.MethodHead:
		o.show(w)
		w.Header().Set("Content-Length", fmt.Sprint(o.size))
	case r.Method == http.MethodGet && o.small != nil:
		_, _ = w.Write(o.small) // likewise
	default:
		w.WriteHeader(http.StatusNotImplemented)
	}
}

func (d *discard) put(w http.ResponseWriter, r *http.Request, taken bool) {
	if taken && r.Header.Get("If-None-Match") == "*" {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	o := kept{crc: r.Header.Get("X-Amz-Checksum-Crc32"), etag: `"` + r.Header.Get("X-Amz-Meta-Siglake-Md5") + `"`}
	var err error
	if r.ContentLength <= keepBelow {
		o.small, err = io.ReadAll(r.Body)
		o.size = int64(len(o.small))
	} else {
		o.size, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	d.objects[r.URL.Path] = o
	d.mu.Unlock()
	o.show(w)
}

func (o kept) show(w http.ResponseWriter) {
	w.Header().Set("ETag", o.etag)
	if o.crc != "" {
		w.Header().Set("X-Amz-Checksum-Crc32", o.crc)
	}
}

// startDiscard serves one on loopback.
func startDiscard() (*services.S3, func() error, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen for the store that discards: %w", err)
	}
	server := &http.Server{Handler: &discard{objects: map[string]kept{}}}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	at := &services.S3{Endpoint: "http://" + l.Addr().String(), Region: "us-east-1", Bucket: "discard", AccessKey: "any", SecretKey: "any"}
	return at, func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}, nil
}
