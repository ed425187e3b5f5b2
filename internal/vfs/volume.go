//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Volume is what the kernel says of the mounted file system that holds a directory.
type Volume struct {
	Type    string   // as in mount(8): ext4, xfs, nfs4, fuse.s3fs
	Source  string   // the device or the server
	Mount   string   // where it is mounted
	Options []string // of the mount and of the file system, as the kernel shows them
}

// Has tells whether the volume is mounted with an option.
func (v Volume) Has(option string) bool { return slices.Contains(v.Options, option) }

// mountTable lists what this process sees mounted; maxMountTable bounds what is read of it.
const (
	mountTable    = "/proc/self/mountinfo"
	maxMountTable = 16 << 20
)

// VolumeOf asks the kernel which mounted file system a directory is on.
func VolumeOf(dir string) (Volume, error) {
	var st unix.Statx_t
	if err := retryEINTR(func() error { return unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID, &st) }); err != nil {
		return Volume{}, &fs.PathError{Op: "statx", Path: dir, Err: err}
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return Volume{}, errors.New("this kernel does not tell mounts apart; it is older than Linux 5.8")
	}
	f, err := OS().Open(mountTable)
	if err != nil {
		return Volume{}, err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxMountTable))
	if err = errors.Join(err, f.Close()); err != nil {
		return Volume{}, fmt.Errorf("read %s: %w", mountTable, err)
	}
	return parseMount(string(b), strconv.FormatUint(st.Mnt_id, 10))
}

// parseMount finds the line of a mount: id parent major:minor root mount options … - type source options.
func parseMount(text, id string) (Volume, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		dash := slices.Index(fields, "-")
		if len(fields) < 6 || fields[0] != id || dash < 6 || len(fields) < dash+3 {
			continue
		}
		v := Volume{Type: fields[dash+1], Source: unescape(fields[dash+2]), Mount: unescape(fields[4])}
		v.Options = strings.Split(fields[5], ",")
		if len(fields) > dash+3 {
			v.Options = append(v.Options, strings.Split(fields[dash+3], ",")...)
		}
		return v, nil
	}
	return Volume{}, fmt.Errorf("%s does not list mount %s", mountTable, id)
}

// unescape reads a field of the mount table, in which blanks and backslashes are written in octal.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
