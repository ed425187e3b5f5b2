// Package waldir looks at the directories of a write-ahead log from outside: what is in which state, which file has two
// names, and when a name appears. It reads names and the first bytes of segments, nothing else.
package waldir

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// States are the state directories of a lane.
var States = []string{"active", "sealed", "processing", "committed", "mirror-pending", "orphans", "poison", "stale"}

// Entry is a file in a state directory.
type Entry struct {
	Lane  string // tenant/index
	State string
	Name  string
	Path  string
	Inode uint64
	Size  int64
}

// ID is the segment id: the name without its suffixes.
func (e Entry) ID() string {
	return strings.TrimSuffix(strings.TrimSuffix(e.Name, ".partial"), ".arrow")
}

// List lists all segment files below a root. Files may vanish while it looks.
func List(root string) ([]Entry, error) {
	var out []Entry
	for _, state := range States {
		dirs, err := filepath.Glob(filepath.Join(root, "*", "*", state))
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			entries, err := os.ReadDir(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("list %s: %w", dir, err)
			}
			for _, e := range entries {
				info, err := e.Info()
				if err != nil || info.IsDir() {
					continue
				}
				st, ok := info.Sys().(*syscall.Stat_t)
				if !ok {
					return nil, errors.New("read inode: not a file system with inodes")
				}
				lane, err := filepath.Rel(root, filepath.Dir(dir))
				if err != nil {
					return nil, err
				}
				out = append(out, Entry{lane, state, e.Name(), filepath.Join(dir, e.Name()), st.Ino, info.Size()})
			}
		}
	}
	return out, nil
}

// Count is the number of files by state.
func Count(entries []Entry) map[string]int {
	out := map[string]int{}
	for _, e := range entries {
		out[e.State]++
	}
	return out
}

// In filters by state.
func In(entries []Entry, state string) []Entry {
	var out []Entry
	for _, e := range entries {
		if e.State == state {
			out = append(out, e)
		}
	}
	return out
}

// Twice lists the files with one inode in both states.
func Twice(entries []Entry, a, b string) []Entry {
	inodes := map[uint64]bool{}
	for _, e := range In(entries, a) {
		inodes[e.Inode] = true
	}
	var out []Entry
	for _, e := range In(entries, b) {
		if inodes[e.Inode] {
			out = append(out, e)
		}
	}
	return out
}

// undrained are the states of rows that are not in a table yet.
var undrained = []string{"active", "sealed", "processing", "orphans"}

// WaitDrained waits until no file is left on the way to the table. It fails when something is in poison or stale.
func WaitDrained(ctx context.Context, root string) error {
	return wait(ctx, root, func(n map[string]int) error {
		if n["poison"]+n["stale"] > 0 {
			return fmt.Errorf("wait for the drain: %d files in poison, %d in stale", n["poison"], n["stale"])
		}
		return nil
	})
}

// WaitEmpty waits until no file is left on the way to the table; what was set aside on it is the caller's to judge.
func WaitEmpty(ctx context.Context, root string) error {
	return wait(ctx, root, func(map[string]int) error { return nil })
}

func wait(ctx context.Context, root string, check func(map[string]int) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		entries, err := List(root)
		if err != nil {
			return err
		}
		n := Count(entries)
		if err := check(n); err != nil {
			return err
		}
		left := 0
		for _, s := range undrained {
			left += n[s]
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the drain: %w; left: %v", ctx.Err(), n)
		case <-tick.C:
		}
	}
}

const (
	headerSize  = 52
	flagPartial = 0x02
)

var endOfStream = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// Frame is what the outside of a segment says.
type Frame struct {
	Partial bool   // the PARTIAL flag
	BodyLen uint64 // as claimed
	EOS     bool   // the last bytes are an end of stream
	Rest    int64  // bytes after the header
}

// ReadFrame reads the header and the end of a segment.
func ReadFrame(path string) (Frame, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Frame{}, fmt.Errorf("read segment: %w", err)
	}
	if len(data) < headerSize || string(data[:4]) != "LWAL" {
		return Frame{Rest: int64(len(data))}, nil
	}
	return Frame{
		Partial: data[5]&flagPartial != 0,
		BodyLen: binary.LittleEndian.Uint64(data[24:]),
		EOS:     bytes.HasSuffix(data[headerSize:], endOfStream),
		Rest:    int64(len(data) - headerSize),
	}, nil
}
