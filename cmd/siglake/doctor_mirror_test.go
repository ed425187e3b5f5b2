package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/objstore/storetest"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// doctorOf runs the checks of the mirror on a store.
func doctorOf(ctx context.Context, t *testing.T, store objstore.Store) map[string]finding {
	t.Helper()
	d := &doctor{
		app:         &app{environment: environment{fs: vfs.OS(), now: time.Now, kernel: testKernel()}},
		doctorFlags: doctorFlags{timeout: 30 * time.Second},
	}
	at, err := objstore.ParseURL("s3://bucket/prefix")
	require.NoError(t, err)
	d.tryMirror(ctx, at, store)
	out := map[string]finding{}
	for _, f := range d.found {
		out[f.Check] = f
	}
	return out
}

var errStore = errors.New("AccessDenied")

// failing makes one kind of call fail.
func failing(kind string) func(storetest.Op) *storetest.Fault {
	return func(op storetest.Op) *storetest.Fault {
		if op.Kind == kind {
			return &storetest.Fault{Err: errStore}
		}
		return nil
	}
}

// Each fault of the store is told by the check that is about it.
func TestDoctor_mirror_faults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		store *storetest.Store
		hook  func(storetest.Op) *storetest.Fault
		want  map[string]string
		seen  string // by the first of want
	}{
		{"well", &storetest.Store{Clock: time.Now}, nil, map[string]string{
			"mirror-put": passed, "mirror-conditional-put": passed, "mirror-get": passed, "mirror-list": passed, "mirror-delete": passed, "mirror-clock": passed,
			"mirror-digest": passed,
		}, ""},
		{"no conditional put", &storetest.Store{Clock: time.Now, Careless: true}, nil, map[string]string{"mirror-conditional-put": failed}, "was accepted"},
		{"the condition is refused", &storetest.Store{Clock: time.Now}, func(op storetest.Op) *storetest.Fault {
			if op.Kind == "put" {
				return &storetest.Fault{Err: errors.New("NotImplemented")}
			}
			return nil
		}, map[string]string{"mirror-conditional-put": failed, "mirror-put": warned}, "NotImplemented"},
		{"no right to write", &storetest.Store{}, func(op storetest.Op) *storetest.Fault {
			if op.Kind == "put" || op.Kind == "replace" {
				return &storetest.Fault{Err: errStore}
			}
			return nil
		}, map[string]string{"mirror-put": failed, "mirror-get": skipped}, "AccessDenied"},
		{"no right to list", &storetest.Store{}, failing("list"), map[string]string{"mirror-reach": failed, "mirror-put": skipped}, "AccessDenied"},
		{"no right to read", &storetest.Store{}, failing("get"), map[string]string{"mirror-get": failed}, "AccessDenied"},
		{"no right to delete", &storetest.Store{Clock: time.Now}, failing("delete"), map[string]string{"mirror-delete": failed, "mirror-list": passed}, "it stays"},
		{"a put that does nothing", &storetest.Store{}, func(op storetest.Op) *storetest.Fault {
			if op.Kind == "put" {
				return &storetest.Fault{Lie: true}
			}
			return nil
		}, map[string]string{"mirror-get": failed, "mirror-list": failed}, "no such object"},
		{"a delete that does nothing", &storetest.Store{}, func(op storetest.Op) *storetest.Fault {
			if op.Kind == "delete" {
				return &storetest.Fault{Lie: true}
			}
			return nil
		}, map[string]string{"mirror-delete": failed}, "is still there"},
		{
			"a clock that is off", &storetest.Store{Clock: func() time.Time { return time.Now().Add(time.Hour) }}, nil,
			map[string]string{"mirror-clock": failed},
			"1h0m0s ahead",
		},
		{"no digest", &storetest.Store{NoDigest: true}, nil, map[string]string{"mirror-digest": warned, "mirror-get": passed}, "shows no digest"},
		{"no clock", &storetest.Store{Clock: func() time.Time { return time.Time{} }}, nil, map[string]string{"mirror-clock": unknown}, "no times"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.store.SetHook(tc.hook)
			got := doctorOf(t.Context(), t, tc.store)
			var told []string
			for name, want := range tc.want {
				require.Equal(t, want, got[name].Result, "%s: %s", name, got[name].Seen)
				told = append(told, got[name].Seen)
			}
			require.Contains(t, strings.Join(told, "\n"), tc.seen)
			if got["mirror-delete"].Result == passed {
				require.Empty(t, tc.store.Objects())
			}
		})
	}
}

// Ctrl-C at any call leaves nothing; what a doctor that was killed has left goes when it is old.
func TestDoctor_mirror_interrupted_and_killed(t *testing.T) {
	t.Parallel()
	calls := 0
	for n := 0; ; n++ {
		store := &storetest.Store{Clock: time.Now}
		store.Set("default/events/x.arrow", []byte("rows"))
		old, young := mirrorKey(time.Now().Add(-2*time.Hour)), mirrorKey(time.Now().Add(-time.Minute))
		store.Set(old, nil)
		store.Set(young, nil)
		ctx, cancel := context.WithCancel(t.Context())
		at := 0
		store.SetHook(func(storetest.Op) *storetest.Fault {
			if at == n {
				cancel()
			}
			at++
			return nil
		})
		doctorOf(ctx, t, store)
		over := ctx.Err() == nil
		cancel()
		left := store.Objects()
		require.Contains(t, left, "default/events/x.arrow", n)
		require.Contains(t, left, young, n)
		for key := range left {
			require.True(t, key == "default/events/x.arrow" || key == young || key == old, "%d: %s", n, key)
		}
		if over {
			require.NotContains(t, left, old)
			break
		}
		calls++
	}
	require.Greater(t, calls, 8)
}

// A mirror on the volume of the log is told, and so is one that is not there yet; none is made.
func TestDoctor_mirror_places(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	url, _ := bucketOf(t, map[string][]byte{})
	require.Equal(t, warned, doctorJSON(t, s, "--mirror", url)["mirror-place"].Result)
	f := doctorJSON(t, s, "--mirror", url+"/none")["mirror-reach"]
	require.Equal(t, unknown, f.Result)
	require.NoDirExists(t, strings.TrimPrefix(url, "file://")+"/none")
	require.Equal(t, skipped, doctorJSON(t, s)["mirror-reach"].Result)
}

// What the collector refuses fails: a mirror in the log or the warehouse, or around one. Nothing is written there.
func TestDoctor_mirror_inside_the_log(t *testing.T) {
	t.Parallel()
	s := drained(t)
	look := func() []string { return append(tree(t, s.walDir()), tree(t, filepath.Join(s.dir, "warehouse"))...) }
	before := look()
	for at, other := range map[string]string{
		s.walDir(): "the log", s.walDir() + "/copies": "the log", s.dir: "the log", s.dir + "/warehouse/copies": "the warehouse",
	} {
		got := doctorJSON(t, s, "--mirror", "file://"+at)
		require.Equal(t, failed, got["mirror-place"].Result, at)
		require.Contains(t, got["mirror-place"].Seen, "the collector refuses a mirror in "+other)
		require.NotContains(t, got, "mirror-reach")
		require.NotContains(t, got, "mirror-put")
	}
	require.Equal(t, before, look())
	require.Equal(t, "siglake: --mirror: \"/tmp/x\" is a path and no URL; write file:///tmp/x\n", s.run("doctor", "--mirror", "/tmp/x").stderr)
}

// A bucket without the prefix is no mirror; the one that was meant is named, whatever its name.
func TestDoctor_mirror_without_its_prefix(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, prefix := range []string{"wal-mirror", "copies"} {
		_, dir := bucketOf(t, map[string][]byte{})
		parent := t.TempDir()
		require.NoError(t, os.Rename(dir, filepath.Join(parent, prefix)))
		require.NoError(t, os.MkdirAll(filepath.Join(parent, "other"), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(parent, "other", "x"), []byte("x"), 0o600))
		f := doctorJSON(t, s, "--data", s.dir, "--mirror", "file://"+parent)["mirror-reach"]
		require.Equal(t, warned, f.Result)
		require.Equal(t, "file://"+parent+" is no mirror, and file://"+parent+"/"+prefix+" is one", f.Seen)
		require.Equal(t, "run siglake doctor --mirror file://"+parent+"/"+prefix+" --data "+s.dir, f.Fix)
	}
}

// A store that cannot be asked is told, without a secret.
func TestDoctor_mirror_unreachable(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-to-be-seen")
	s := newSite(t)
	r := s.run("doctor", "--mirror", "s3://bucket/prefix")
	require.Equal(t, exitUnfit, r.code)
	require.Contains(t, r.stderr, "mirror-reach")
	require.Contains(t, r.stdout, "connection refused")
	require.NotContains(t, r.stdout+r.stderr, "not-to-be-seen")
}
