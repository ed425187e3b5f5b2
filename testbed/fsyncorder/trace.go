// Package fsyncorder runs the built collector under strace and reads off what was synced before an answer left: under
// wait_for the segment and every directory that names it (ACK-1), under auto nothing.
package fsyncorder

import (
	"bufio"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Calls are the system calls to trace.
const Calls = "write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,sync_file_range,msync,sync,syncfs,openat,mkdirat,linkat,renameat,renameat2"

// Call is one system call of a trace. Start and End are line numbers: a call that other threads interrupted has two.
type Call struct {
	Name       string
	Path       string // of the descriptor, or of the name that is made
	Text       string // the arguments as strace writes them
	Start, End int
	OK         bool
	made       bool
}

// IsSync says whether the call makes bytes or names durable.
func (c Call) IsSync() bool {
	switch c.Name {
	case "fsync", "fdatasync", "sync_file_range", "msync", "sync", "syncfs":
		return c.OK
	}
	return false
}

// IsWrite says whether the call writes bytes to its path.
func (c Call) IsWrite() bool {
	switch c.Name {
	case "write", "writev", "pwrite64", "pwritev", "pwritev2":
		return c.OK
	}
	return false
}

// Makes says whether the call makes the name Path.
func (c Call) Makes() bool { return c.OK && c.made }

var (
	lineRE    = regexp.MustCompile(`^(\d+)\s+(.*)$`)
	startRE   = regexp.MustCompile(`^(\w+)\((.*)$`)
	resumedRE = regexp.MustCompile(`^<\.\.\. (\w+) resumed>(.*)$`)
	// An absolute path behind a descriptor, as -y writes it: 7</data/wal>.
	fdRE     = regexp.MustCompile(`^\d+<((?:->|[^>])*)>`)
	resultRE = regexp.MustCompile(`\)\s+= (-?\d+|0x[0-9a-f]+|\?)(<([^>]*)>)?`)
	quotedRE = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
)

// Parse reads the output of strace -f -yy.
func Parse(in io.Reader) ([]Call, error) {
	var out []Call
	open := map[int]int{} // thread to index of its unfinished call
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 16<<20)
	for n := 1; scan.Scan(); n++ {
		m := lineRE.FindStringSubmatch(scan.Text())
		if m == nil {
			continue
		}
		thread, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		if r := resumedRE.FindStringSubmatch(m[2]); r != nil {
			if i, ok := open[thread]; ok {
				out[i].Text += r[2]
				out[i].finish(n)
				delete(open, thread)
			}
			continue
		}
		s := startRE.FindStringSubmatch(m[2])
		if s == nil {
			continue
		}
		c := Call{Name: s[1], Start: n}
		c.Text = strings.TrimSuffix(s[2], " <unfinished ...>")
		if c.Text != s[2] {
			open[thread] = len(out)
		} else {
			c.finish(n)
		}
		out = append(out, c)
	}
	return out, scan.Err()
}

// finish reads result and path once the call's text is whole.
func (c *Call) finish(line int) {
	c.End = line
	r := resultRE.FindStringSubmatch(c.Text)
	c.OK = r != nil && !strings.HasPrefix(r[1], "-")
	switch c.Name {
	case "openat":
		if r != nil {
			c.Path = r[3]
		}
		c.made = strings.Contains(c.Text, "O_CREAT")
	case "mkdirat", "linkat", "renameat", "renameat2":
		c.made = true
		if q := quotedRE.FindAllStringSubmatch(c.Text, -1); len(q) > 0 {
			c.Path = q[len(q)-1][1]
		}
	default:
		if m := fdRE.FindStringSubmatch(c.Text); m != nil {
			c.Path = m[1]
		}
	}
}

// Answer finds the first 200 that the HTTP/1.1 server on an address sends after a line.
func Answer(calls []Call, address string, after int) (Call, bool) {
	for _, c := range calls {
		if c.Start > after && (c.Name == "write" || c.Name == "writev") && strings.Contains(c.Text, "HTTP/1.1 200 OK") && strings.HasPrefix(c.Path, "TCP:["+address+"-") {
			return c, true
		}
	}
	return Call{}, false
}

// Missing lists what was not durable when the answer left: bytes of the segment that were written and not synced
// after, and names on the way to it whose directory was not synced after the name was made. root is the log's own
// folder, the first that the collector makes.
func Missing(calls []Call, answer Call, segment, root string) []string {
	var out []string
	written, synced := 0, 0
	dirs := map[string]int{} // directory to the line of its last sync that ended before the answer
	made := map[string]int{} // name to the line that made it
	for _, c := range calls {
		if c.End == 0 || c.End >= answer.Start {
			continue
		}
		switch {
		case c.Path == segment && c.IsWrite():
			written = c.End
		case c.Path == segment && c.IsSync():
			synced = c.Start
		case c.IsSync():
			dirs[c.Path] = c.Start
		case c.Makes():
			made[c.Path] = c.End
		}
	}
	if written == 0 {
		out = append(out, "nothing was written to "+segment)
	}
	if synced < written {
		out = append(out, segment+" was written and not synced")
	}
	for name := segment; strings.HasPrefix(name, root); name = filepath.Dir(name) {
		if at, ok := made[name]; ok && dirs[filepath.Dir(name)] < at {
			out = append(out, filepath.Dir(name)+" was not synced after "+filepath.Base(name)+" was made in it")
		}
	}
	return out
}

// Syncs lists the syncs below a folder that began between two lines.
func Syncs(calls []Call, root string, from, to int) []Call {
	var out []Call
	for _, c := range calls {
		if c.IsSync() && strings.HasPrefix(c.Path, root) && c.Start > from && c.Start < to {
			out = append(out, c)
		}
	}
	return out
}
