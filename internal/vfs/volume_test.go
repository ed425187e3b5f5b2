package vfs

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseMount(t *testing.T) {
	t.Parallel()
	const text = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
31 22 0:44 /sub /var/lib/a\040b rw,nosuid master:3 shared:7 - nfs4 10.0.0.7:/export rw,vers=4.2,local_lock=none
32 22 0:45 / /x rw - overlay overlay
bad line
`
	for id, want := range map[string]Volume{
		"22": {Type: "ext4", Source: "/dev/vda", Mount: "/", Options: []string{"rw", "relatime", "rw", "discard"}},
		"31": {Type: "nfs4", Source: "10.0.0.7:/export", Mount: "/var/lib/a b", Options: []string{"rw", "nosuid", "rw", "vers=4.2", "local_lock=none"}},
		"32": {Type: "overlay", Source: "overlay", Mount: "/x", Options: []string{"rw"}},
	} {
		got, err := parseMount(text, id)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.True(t, Volume{Options: []string{"rw", "nobarrier"}}.Has("nobarrier"))
	_, err := parseMount(text, "7")
	require.ErrorContains(t, err, "does not list mount 7")
	_, err = parseMount(text, "bad")
	require.Error(t, err)
}

// The kernel of the machine that runs this is asked: /proc is one file system, whatever else there is.
func TestVolumeOf(t *testing.T) {
	t.Parallel()
	v, err := VolumeOf("/proc/self")
	require.NoError(t, err)
	require.Equal(t, "proc", v.Type)
	require.Equal(t, "/proc", v.Mount)
	v, err = VolumeOf(t.TempDir())
	require.NoError(t, err)
	require.NotEmpty(t, v.Type)
	require.True(t, filepath.IsAbs(v.Mount))
	_, err = VolumeOf(filepath.Join(t.TempDir(), "gone"))
	require.ErrorContains(t, err, "gone")
}
