package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/term"
)

// errInterrupted is what a line source returns for Ctrl-C: the line is thrown away.
var errInterrupted = errors.New("interrupted")

// lineSource is where a shell's lines come from.
type lineSource interface {
	// next returns one line, its line break included where there was one; io.EOF behind the last.
	next(ctx context.Context, prompt string) (string, error)
}

// pipedLines are lines of a pipe or a file.
type pipedLines struct{ s *bufio.Scanner }

func newPipedLines(r io.Reader) pipedLines {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxStatement+1)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := slices.Index(data, '\n'); i >= 0 {
			return i + 1, data[:i+1], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	return pipedLines{s}
}

func (p pipedLines) next(ctx context.Context, _ string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if p.s.Scan() {
		return p.s.Text(), nil
	}
	switch err := p.s.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return "", errLongStatement()
	case err != nil:
		return "", fmt.Errorf("read the statements from stdin: %w", err)
	}
	return "", io.EOF
}

func errLongStatement() error {
	return usageError("a statement on stdin is longer than %d bytes", maxStatement)
}

// console is a terminal to type lines on. It is in raw mode only while a line is typed: at all other times Ctrl-C is
// a signal, and output needs no carriage returns.
type console struct {
	in, out *os.File
	history *history
	keys    *keys
	edit    *term.Terminal
	ahead   []byte // typed and not yet looked at
}

// openConsole returns nil when in is no terminal, or when there is none to echo on.
func openConsole(in *os.File, outs ...*os.File) *console {
	if !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	for _, out := range outs {
		if term.IsTerminal(int(out.Fd())) {
			return &console{in: in, out: out, history: &history{}}
		}
	}
	return nil
}

// keys is what is typed, up to each Ctrl-C: to the line editor that ends the input as Ctrl-D does, and it would drop
// what was typed behind.
type keys struct {
	console     *console
	interrupted bool
}

const ctrlC = 3

func (k *keys) Read(p []byte) (int, error) {
	c := k.console
	if len(c.ahead) == 0 {
		b := make([]byte, 4096)
		n, err := c.in.Read(b)
		if c.ahead = b[:n]; err != nil {
			return copy(p, c.ahead), err
		}
	}
	next := c.ahead[:min(len(p), len(c.ahead))]
	if i := slices.Index(next, ctrlC); i >= 0 {
		next, k.interrupted = next[:i+1], true
	}
	c.ahead = c.ahead[len(next):]
	return copy(p, next), nil
}

func (k *keys) Write(p []byte) (int, error) { return k.console.out.Write(p) }

// next returns errInterrupted for Ctrl-C and io.EOF for Ctrl-D on an empty line. When ctx ends first, the terminal is
// put back and a goroutine stays behind that waits for a key: the process is about to end.
func (c *console) next(ctx context.Context, prompt string) (string, error) {
	if c.edit == nil {
		c.keys = &keys{console: c}
		c.edit = term.NewTerminal(c.keys, "")
		c.edit.History = c.history
	}
	fd := int(c.in.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("set up the terminal: %w", err)
	}
	if width, height, err := term.GetSize(int(c.out.Fd())); err == nil && width > 0 {
		// What it reports is that the cursor could not be moved; the next write says so too.
		_ = c.edit.SetSize(width, height)
	}
	c.edit.SetPrompt(prompt)
	type typed struct {
		line string
		err  error
	}
	done := make(chan typed, 1)
	go func() {
		line, err := c.edit.ReadLine()
		done <- typed{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	case t := <-done:
		if err := term.Restore(fd, before); err != nil {
			return "", fmt.Errorf("put the terminal back: %w", err)
		}
		return c.finish(t.line, t.err)
	}
}

func (c *console) finish(line string, err error) (string, error) {
	if err == nil {
		return line + "\n", nil
	}
	interrupted := c.keys.interrupted
	c.edit = nil // with the line that was begun
	if _, werr := fmt.Fprintln(c.out); werr != nil {
		return "", werr
	}
	if interrupted {
		return "", errInterrupted
	}
	return "", err
}
