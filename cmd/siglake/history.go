package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

// maxHistory is how many lines of input are kept. maxHistoryLine bounds one of them in bytes: what is longer was
// pasted, and is not typed again.
const (
	maxHistory     = 1000
	maxHistoryLine = 4096
)

// history is what was typed, oldest first, and the file that keeps it; "" keeps none. It is a term.History.
type history struct {
	path  string
	lines []string
	err   error // of the first write that failed: the shell goes on without
}

// historyPath is the file for the user's history; "" when the environment names no home.
func historyPath(getenv func(string) string) string {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "siglake", "history")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "siglake", "history")
	}
	return ""
}

// loadHistory reads the file, and cuts it when it has grown to twice the bound. No file is an empty history.
func loadHistory(fsys vfs.FS, path string) (*history, error) {
	h := &history{path: path}
	if path == "" {
		return h, nil
	}
	b, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return &history{}, err
	}
	h.lines = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(b) == 0 {
		h.lines = nil
	}
	if len(h.lines) >= 2*maxHistory {
		h.cut()
		if err := vfs.WritePrivate(path, []byte(strings.Join(h.lines, "\n")+"\n")); err != nil {
			return h, err
		}
	}
	h.cut()
	return h, nil
}

func (h *history) cut() { h.lines = h.lines[max(0, len(h.lines)-maxHistory):] }

// Add notes a line, unless it is empty, long, or the last one again.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(line) > maxHistoryLine || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.cut()
	if h.path == "" || h.err != nil {
		return
	}
	h.err = vfs.AppendPrivate(h.path, []byte(line+"\n"))
}

// Len is the number of lines.
func (h *history) Len() int { return len(h.lines) }

// At returns a line, the newest as 0.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
