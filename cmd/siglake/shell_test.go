//go:build cgo

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// piped runs a shell over text on stdin.
func piped(t *testing.T, s *site, text string, args ...string) result {
	t.Helper()
	other := *s
	other.tb, other.stdin = t, strings.NewReader(text)
	return other.run(append([]string{"sql"}, args...)...)
}

func TestShell_from_a_pipe(t *testing.T) {
	t.Parallel()
	s := tabled(t)
	t.Run("statements_one_after_the_other", func(t *testing.T) {
		t.Parallel()
		r := piped(t, s, "-- first\nSELECT count(*) AS n\nFROM events; SELECT ';' AS c;\n\nSELECT 3 AS three", "--format", "csv")
		require.Equal(t, result{stdout: "n\n5\nc\n;\nthree\n3\n"}, r)
	})
	t.Run("the_first_that_fails_ends_it", func(t *testing.T) {
		t.Parallel()
		for text, code := range map[string]int{
			"SELECT 1 AS a; SELECT nope; SELECT 2 AS b;":            exitFailed,
			"SELECT 1 AS a;\nDROP TABLE events; SELECT 2 AS b;":     exitUsage,
			"SELECT 1 AS a;\n\\nope\nSELECT 2 AS b;":                exitUsage,
			"SELECT 1 AS a;\n\\x 1 2\n":                             exitUsage,
			"SELECT 1 AS a;\n\\format yaml\n":                       exitUsage,
			"SELECT 1 AS a;\nSELECT '" + strings.Repeat("x", 2<<20): exitUsage,
		} {
			r := piped(t, s, text, "-", "-o", "csv")
			require.Equal(t, code, r.code, "%.50s: %s", text, r.stderr)
			require.Equal(t, "a\n1\n", r.stdout, "%.50s", text)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, result{}, piped(t, s, " ;\n-- x\n"))
	})
	t.Run("commands", func(t *testing.T) {
		t.Parallel()
		r := piped(t, s, "\\d\n\\d events\n\\format csv\nSELECT 1 AS a;\n\\format table\n\\x\nSELECT 1 AS a, 'x' AS long_name;\n\\?\n\\refresh\n\\q\nSELECT 2;\n")
		require.Zero(t, r.code, r.stderr)
		s.golden("shell_commands.txt", r.stdout)
	})
	t.Run("words_of_other_shells", func(t *testing.T) {
		t.Parallel()
		for _, word := range []string{"quit", "exit;", " EXIT "} {
			r := piped(t, s, "SELECT 1 AS a;\n"+word+"\nSELECT 2 AS b;\n", "-o", "csv")
			require.Equal(t, result{stdout: "a\n1\n"}, r, word)
		}
		require.Equal(t, piped(t, s, "\\?\n"), piped(t, s, "help\n"))
		require.Equal(t, "help\n1\n", piped(t, s, "SELECT 1 AS\nhelp\n;\n", "-o", "csv").stdout, "in a statement they are SQL")
		require.Equal(t, exitFailed, piped(t, s, "help me;\n").code)
	})
	t.Run("unknown_table", func(t *testing.T) {
		t.Parallel()
		r := piped(t, s, "\\d nothing\n")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "there is no table nothing\nThe tables are: siglake.events, tenant_team-a.events")
	})
}

// A shell sees each table as it was until it is told otherwise.
func TestShell_refresh(t *testing.T) {
	t.Parallel()
	s := tabled(t)
	const count = "SELECT count(*) AS n FROM events;\n"
	other := *s
	pr, pw, err := os.Pipe()
	require.NoError(t, err)
	defer pr.Close()
	other.stdin = pr
	done := make(chan result, 1)
	go func() { done <- other.run("sql", "-o", "csv") }()
	more := func() {
		s.write("default", "events", 1)
		s.ok("drain", "--once")
	}
	// One statement is read and run before the pipe takes much more than its buffer.
	_, err = pw.WriteString(count + "SELECT '" + strings.Repeat("x", 200<<10) + "' = '' AS read;\n")
	require.NoError(t, err)
	more()
	_, err = pw.WriteString(count + "\\refresh\n" + count)
	require.NoError(t, err)
	require.NoError(t, pw.Close())
	require.Equal(t, result{stdout: "n\n5\nread\nfalse\nn\n5\nn\n6\n"}, <-done)
}

// terminalOf starts siglake on a terminal of its own. Who starts a process is not parallel: between its fork and its exec the
// child has copies of the locks of tests beside it, which find them held after they have let them go.
func terminalOf(t *testing.T, s *site, args ...string) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 300}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, append([]string{"sql"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "SIGLAKE_DATA="+s.dir, "XDG_STATE_HOME="+filepath.Join(s.dir, "state"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, slave.Close())
	sc := &screen{t: t, master: master, done: make(chan error, 1)}
	go sc.watch(cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-sc.done
		_ = master.Close()
	})
	return sc
}

// screen is what a person sees and types.
type screen struct {
	t      *testing.T
	master *os.File
	done   chan error // closed at the end of the program, after its error

	mu   sync.Mutex
	seen bytes.Buffer // since the last expect
	all  bytes.Buffer
}

func (s *screen) watch(cmd *exec.Cmd) {
	b := make([]byte, 4096)
	for {
		n, err := s.master.Read(b)
		s.mu.Lock()
		s.seen.Write(b[:n])
		s.all.Write(b[:n])
		s.mu.Unlock()
		if err != nil { // EIO: the program has closed its side
			break
		}
	}
	s.done <- cmd.Wait()
	close(s.done)
}

func (s *screen) types(text string) {
	s.t.Helper()
	_, err := s.master.WriteString(text)
	require.NoError(s.t, err)
}

// expect waits until the text was shown, and forgets all up to its end.
func (s *screen) expect(text string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.shown(text) }, time.Minute, 10*time.Millisecond, "waiting for %q", text)
}

// ends waits for the end of the program, and that it had no error.
func (s *screen) ends() {
	s.t.Helper()
	select {
	case err := <-s.done:
		require.NoError(s.t, err)
	case <-time.After(time.Minute):
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Fail(s.t, "it did not end", "it showed %q", s.all.String())
	}
}

func (s *screen) shown(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, after, ok := bytes.Cut(s.seen.Bytes(), []byte(text))
	if ok {
		rest := bytes.Clone(after)
		s.seen.Reset()
		s.seen.Write(rest)
	}
	return ok
}

func TestShell_on_a_terminal(t *testing.T) {
	s := tabled(t)
	sc := terminalOf(t, s)
	sc.expect(`\d lists the tables`)
	sc.expect(promptFirst)
	sc.types("\\d\r")
	sc.expect("siglake.events")
	sc.expect(promptFirst)
	sc.types("SELECT count(*) AS n\r")
	sc.expect(promptMore)
	sc.types("FROM events;\r")
	sc.expect("\r\n5\r\n(1 row)\r\n")
	sc.expect("planned 5 rows in 1 file; DuckDB opened 1 file and took 5 rows out of them")
	sc.expect(promptFirst)

	// An error does not end it, nor does Ctrl-C on a line that is half typed.
	sc.types("DROP TABLE events;\r")
	sc.expect("siglake: only SELECT")
	sc.expect(promptFirst)
	sc.types("SELECT 'open\r")
	sc.expect(promptMore)
	sc.types("nonsense\x03")
	sc.expect(promptFirst)

	// The arrow brings back what was typed; timing can be switched off.
	sc.types("\\timing\r")
	sc.expect("timing: off")
	sc.types("SELECT 40 + 2 AS a;\r")
	sc.expect("\r\n42\r\n")
	sc.expect(promptFirst)
	sc.types("\x1b[A\r")
	sc.expect("SELECT 40 + 2 AS a;")
	sc.expect("\r\n42\r\n(1 row)\r\n" + promptFirst)

	sc.types("\x04")
	sc.ends()

	path := filepath.Join(s.dir, "state", "siglake", "history")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(b), "SELECT count(*) AS n\nFROM events;\n")

	// The next shell has it, one without history leaves no trace.
	sc = terminalOf(t, s)
	sc.expect(promptFirst)
	sc.types("\x1b[A\r")
	sc.expect("\r\n42\r\n")
	sc.expect(promptFirst)
	sc.types("\\q\r")
	sc.ends()
	sc = terminalOf(t, s, "--no-history")
	sc.expect(promptFirst)
	sc.types("SELECT 'secret';\r\\q\r")
	sc.ends()
	b, err = os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(b), "secret")
}

func TestShell_interrupt_ends_the_query_only(t *testing.T) {
	s := tabled(t)
	sc := terminalOf(t, s)
	sc.expect(promptFirst)
	sc.types("SELECT count(*) FROM range(10000000000) a(i), range(1000) b(j) WHERE hash(i, j) = 3;\r")
	require.Eventually(t, func() bool {
		sc.types("\x03") // until the query runs it ends nothing
		return sc.shown("siglake: interrupted")
	}, time.Minute, 50*time.Millisecond)
	sc.expect(promptFirst)
	sc.types("SELECT 40 + 2 AS a;\r")
	sc.expect("\r\n42\r\n")
	sc.expect(promptFirst) // until then the terminal is the system's, and keeps no Ctrl-D for later
	sc.types("\x04")
	sc.ends()
}

func TestShell_history(t *testing.T) {
	path := filepath.Join(t.TempDir(), "siglake", "history")
	fsys := newSite(t).fs
	h, err := loadHistory(fsys, path)
	require.NoError(t, err)
	require.Zero(t, h.Len())
	for i := range 2*maxHistory + 1 {
		h.Add(fmt.Sprint("line ", i))
		h.Add(fmt.Sprint("line ", i)) // once is enough
	}
	h.Add("  ")
	h.Add(strings.Repeat("x", maxHistoryLine+1))
	require.NoError(t, h.err)
	require.Equal(t, maxHistory, h.Len())
	require.Equal(t, "line 2000", h.At(0))
	require.Equal(t, "line 1001", h.At(maxHistory-1))
	h, err = loadHistory(fsys, path)
	require.NoError(t, err)
	require.Equal(t, "line 2000", h.At(0))
	require.Equal(t, maxHistory, h.Len())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, maxHistory, bytes.Count(b, []byte("\n")), "the file was cut")

	require.Equal(t, "/s/siglake/history", historyPath(func(n string) string { return map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/h"}[n] }))
	require.Equal(t, "/h/.local/state/siglake/history", historyPath(func(n string) string { return map[string]string{"HOME": "/h"}[n] }))
	require.Empty(t, historyPath(func(string) string { return "" }))
}
