package segment_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

func newRoot(t *testing.T) *segment.Root {
	t.Helper()
	r, err := segment.Create(vfs.OS(), filepath.Join(t.TempDir(), "wal"))
	require.NoError(t, err)
	return r
}

func newLane(t *testing.T, r *segment.Root, tenant, index string) segment.Lane {
	t.Helper()
	l, err := r.Lane(tenant, index)
	require.NoError(t, err)
	require.NoError(t, l.Prepare())
	return l
}

func touch(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o750))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	again, err := segment.Create(vfs.OS(), r.Dir())
	require.NoError(t, err)
	require.Equal(t, r.UUID(), again.UUID())
	opened, err := segment.Open(vfs.OS(), r.Dir())
	require.NoError(t, err)
	require.Equal(t, r.UUID(), opened.UUID())
}

// G7: a fresh volume has a lost+found, and the lock file is there before the marker.
func TestCreate_accepts_a_fresh_volume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	touch(t, filepath.Join(dir, "LOCK"), filepath.Join(dir, "drain.lock"), filepath.Join(dir, "siglake-wal.json.tmp"))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	_, err := segment.Create(vfs.OS(), dir)
	require.NoError(t, err)
}

func TestCreate_refuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	touch(t, filepath.Join(dir, "homework.txt"))
	_, err := segment.Create(vfs.OS(), dir)
	require.ErrorIs(t, err, segment.ErrNotEmpty)
	require.ErrorContains(t, err, "homework.txt")

	newer := `{"format":2,"uuid":"0198c0de-0001-7abc-8def-0123456789ab"}`
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "siglake-wal.json"), []byte(newer), 0o600))
	for _, open := range []func(vfs.FS, string) (*segment.Root, error){segment.Create, segment.Open} {
		_, err := open(vfs.OS(), dir)
		require.ErrorIs(t, err, segment.ErrFormat)
		require.ErrorContains(t, err, "another format: 2, this version knows 1")
		require.ErrorContains(t, err, dir)
	}
}

// A10: a damaged marker is an error of whoever only reads. The writer keeps its bytes under another name, each time
// anew, and the root and its lanes stay. LOUD-1.
func TestCreate_A10_sets_a_damaged_marker_aside(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	newLane(t, r, "default", "events")
	marker := filepath.Join(r.Dir(), "siglake-wal.json")
	for i, content := range []string{"", `{"form`, `{"format":1}`, "\x00\xff", `{"form`} {
		require.NoError(t, os.WriteFile(marker, []byte(content), 0o600))
		_, err := segment.Open(vfs.OS(), r.Dir())
		require.ErrorIs(t, err, segment.ErrDamagedRoot)
		require.ErrorContains(t, err, r.Dir())
		mended, err := segment.Create(vfs.OS(), r.Dir())
		require.NoError(t, err)
		aside, err := os.ReadFile(mended.Aside())
		require.NoError(t, err)
		require.Equal(t, content, string(aside), "%d", i)
		again, err := segment.Open(vfs.OS(), r.Dir())
		require.NoError(t, err)
		require.Equal(t, mended.UUID(), again.UUID())
		lanes, strangers, err := again.Lanes()
		require.NoError(t, err)
		require.Empty(t, strangers)
		require.Len(t, lanes, 1)
	}
	kept, err := filepath.Glob(marker + ".damaged*")
	require.NoError(t, err)
	require.Len(t, kept, 4, "the fifth is the second once more")
}

// The power is cut before every operation of the mending: the next start finds a root, and the damaged bytes are kept.
func TestSweep_mend_A10(t *testing.T) {
	t.Parallel()
	for _, policy := range simfs.Policies() {
		fired := func() bool { return true }
		for n := 0; fired(); n++ {
			disk := simfs.New(nil)
			_, err := segment.Create(disk, "/wal")
			require.NoError(t, err)
			require.NoError(t, vfs.WriteFile(disk, "/wal/siglake-wal.json", []byte("damaged")))
			var cut simfs.Hook
			cut, fired = simfs.CutAt(n)
			disk.SetHook(cut)
			_, _ = segment.Create(disk, "/wal")
			after := disk.Crash(policy, seed(uint64(n)))
			_, err = segment.Create(after, "/wal")
			require.NoError(t, err)
			aside, err := vfs.ReadFile(after, "/wal/siglake-wal.json.damaged")
			require.NoError(t, err, "%s %d", policy, n)
			require.Equal(t, "damaged", string(aside))
		}
	}
}

// A typo in a path is an error that names the directory and, where one is near, the right one.
func TestOpen_names_the_fix(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	newLane(t, r, "default", "events")
	for dir, want := range map[string]string{
		filepath.Join(r.Dir(), "default", "events", "sealed"): "the root is " + r.Dir(),
		filepath.Join(r.Dir(), "nothing"):                     "the root is " + r.Dir(),
		filepath.Dir(r.Dir()):                                 "there is one in " + r.Dir(),
		filepath.Join(t.TempDir(), "a/b/c/d"):                 "does not exist",
		t.TempDir():                                           "wal::directory",
	} {
		_, err := segment.Open(vfs.OS(), dir)
		require.ErrorIs(t, err, segment.ErrNotRoot)
		require.ErrorContains(t, err, dir)
		require.ErrorContains(t, err, want)
	}
}

func TestLane_names(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	long := strings.Repeat("x", 128)
	for _, tc := range []struct {
		tenant, index string
		want          error
	}{
		{"default", "events", nil},
		{"A_z-9", "0a_-", nil},
		{long, long, nil},
		{"-", "a", nil},
		{"", "events", segment.ErrBadName},
		{"default", "", segment.ErrBadName},
		{long + "x", "events", segment.ErrBadName},
		{"default", long + "x", segment.ErrBadName},
		{"a/b", "events", segment.ErrBadName},
		{"..", "events", segment.ErrBadName},
		{"default", "..", segment.ErrBadName},
		{"default", ".x", segment.ErrBadName},
		{" default", "events", segment.ErrBadName},
		{"ten\x00ant", "events", segment.ErrBadName},
		{"tänant", "events", segment.ErrBadName},
		{"default", "Events", segment.ErrBadName},
		{"default", "_events", segment.ErrBadName},
		{"default", "-events", segment.ErrBadName},
		{"_active", "events", segment.ErrReservedName},
		{"Sealed", "events", segment.ErrReservedName},
		{"lock", "events", segment.ErrReservedName},
		{"siglake-mirror.json", "events", segment.ErrReservedName},
		{"default", "mirror-pending", segment.ErrReservedName},
		{"default", "owner", segment.ErrReservedName},
		{"default", "HEAD", segment.ErrReservedName},
	} {
		_, err := r.Lane(tc.tenant, tc.index)
		require.ErrorIs(t, err, tc.want, "%q/%q", tc.tenant, tc.index)
		if tc.want != nil {
			require.ErrorIs(t, err, segment.ErrBadName, "callers classify by one sentinel")
		}
	}
}

// Each name the layout uses is refused as tenant and as index, in any letter case (T-12).
func TestLane_reserves_the_layout_T12(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	for _, name := range []string{
		"active", "sealed", "processing", "committed", "mirror-pending", "orphans", "poison", "stale", "siglake-wal.json",
		"LOCK", "leases", "drain.lock", "drain.wake", "consumers", "owner", "head", "_active", "siglake-mirror.json",
	} {
		for _, spelled := range []string{name, strings.ToUpper(name), strings.ToLower(name)} {
			_, err := r.Lane(spelled, "events")
			require.ErrorIs(t, err, segment.ErrReservedName, spelled)
			_, err = r.Lane("default", spelled)
			require.ErrorIs(t, err, segment.ErrReservedName, spelled)
		}
	}
}

func TestLane_case_clash(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	early, err := r.Lane("ACME", "events") // made before the other, prepared after it
	require.NoError(t, err)
	newLane(t, r, "acme", "events")
	newLane(t, r, "acme", "other")
	_, err = r.Lane("Acme", "events")
	require.ErrorIs(t, err, segment.ErrCaseClash)
	require.ErrorContains(t, err, `"acme"`)
	require.ErrorIs(t, early.Prepare(), segment.ErrCaseClash)
}

func TestLanes(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	in := func(parts ...string) string { return filepath.Join(append([]string{r.Dir()}, parts...)...) }
	newLane(t, r, "default", "events")
	newLane(t, r, "default", "spans")
	newLane(t, r, "acme", "metrics")
	touch(t, in("LOCK"), in("drain.lock"), in("leases", "x"), in("consumers", "x"), // ours
		in("lost+found", "#1"), in("stray.txt"), in("Sealed", "x"), // strangers of the root
		in("acme", "notes.txt"), in("acme", "Backup", "x"), in("acme", "photos", "cat.jpg"), in("acme", "owner"),
		in("old", "sealed", "x"), in("old", "owner"), in("old", "head"), in("old", "consumers", "c"), in("old", "junk"),
		in("old", "extra", "active", "x"))
	for _, dir := range []string{in("empty"), in("half", "events")} {
		require.NoError(t, os.MkdirAll(dir, 0o750))
	}
	require.NoError(t, os.Symlink(in("default"), in("link")))

	lanes, strangers, err := r.Lanes()
	require.NoError(t, err)
	var got []string
	for _, l := range lanes {
		dir, err := filepath.Rel(r.Dir(), filepath.Dir(l.Dir(segment.Sealed)))
		require.NoError(t, err)
		if got = append(got, l.Key()+" in "+dir); l.Legacy() {
			got[len(got)-1] += " legacy"
		}
	}
	require.Equal(t, []string{
		"acme/metrics in acme/metrics", "default/events in default/events", "default/spans in default/spans",
		"old/extra in old/extra", "old/events in old legacy",
	}, got)
	require.Equal(t, []string{
		"Sealed", "acme/Backup", "acme/notes.txt", "acme/owner", "acme/photos", "link", "lost+found", "old/junk", "stray.txt",
	}, strangers)
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	l := newLane(t, r, "default", "events")
	require.NoError(t, l.Prepare())
	entries, err := os.ReadDir(filepath.Join(r.Dir(), "default", "events"))
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.Equal(t, []string{"active", "committed", "mirror-pending", "orphans", "poison", "processing", "sealed", "stale"}, got)
	require.Equal(t, filepath.Join(r.Dir(), "default/events/sealed/x"), l.Path(segment.Sealed, "x"))
	require.Equal(t, "default/events", l.Key())
}

// A root whose marker was removed is one still: the writer makes it anew, on the level where lock and lanes are and on
// no other.
func TestCreate_makes_a_removed_marker_anew(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	newLane(t, r, "default", "events")
	touch(t, filepath.Join(r.Dir(), "LOCK"))
	require.NoError(t, os.Remove(filepath.Join(r.Dir(), "siglake-wal.json")))
	for _, dir := range []string{filepath.Dir(r.Dir()), filepath.Join(r.Dir(), "default"), filepath.Join(r.Dir(), "default", "events")} {
		_, err := segment.Create(vfs.OS(), dir)
		require.ErrorIs(t, err, segment.ErrNotEmpty, dir)
	}
	again, err := segment.Create(vfs.OS(), r.Dir())
	require.NoError(t, err)
	require.True(t, again.Remade())
	require.NotEqual(t, r.UUID(), again.UUID())
	lanes, strangers, err := again.Lanes()
	require.NoError(t, err)
	require.Empty(t, strangers)
	require.Len(t, lanes, 1)
	once, err := segment.Create(vfs.OS(), r.Dir())
	require.NoError(t, err)
	require.False(t, once.Remade())
	require.Equal(t, again.UUID(), once.UUID())
}

// What siglake doctor makes in a root is no stranger, and keeps nobody from making a root beside it.
func TestRoot_doctor_is_no_stranger(t *testing.T) {
	t.Parallel()
	disk := simfs.New(nil)
	require.NoError(t, disk.MkdirAll("/w/"+segment.DoctorName))
	r, err := segment.Create(disk, "/w")
	require.NoError(t, err)
	_, strangers, err := r.Lanes()
	require.NoError(t, err)
	require.Empty(t, strangers)
	require.ErrorIs(t, segment.CheckTenant(segment.DoctorName), segment.ErrBadName)
}
