package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	promptFirst = "siglake> "
	promptMore  = "     ... "
)

const shellHint = `SQL over the tables, read-only. A statement ends with ";".
\d lists the tables, \d events the columns of one, \? all commands; Ctrl-D leaves. To begin with:
  SELECT timestamp, service_name, body FROM events ORDER BY timestamp DESC LIMIT 10;
`

// shell runs the statements and commands of a lineSource.
type shell struct {
	a      *app
	in     lineSource
	typed  bool // by a person: an error does not end it
	r      runner
	split  splitter
	timing bool
}

// shell runs what comes from the terminal (if it may and there is one) or from stdin. ctx does not end with Ctrl-C.
func (a *app) shell(ctx context.Context, w io.Writer, opt sqlOptions, mayType bool) (err error) {
	// Held to the end, so that between two statements Ctrl-C does not kill the process.
	_, stop := a.interrupt(ctx)
	defer stop()
	v, err := a.openView(ctx, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	sh := shell{a: a, r: runner{view: v, opt: opt, format: a.output, out: w}}
	if a.console == nil || !mayType {
		sh.in = newPipedLines(a.stdin)
		if err := sh.loop(ctx); err != nil {
			return err
		}
		return v.verdict()
	}
	sh.in, sh.typed = a.console, true
	sh.setTiming(true)
	if !opt.noHistory {
		h, err := loadHistory(a.fs, historyPath(a.getenv))
		if err != nil {
			sh.warn("the history cannot be read: %v", err)
		}
		a.console.history = h
	}
	if _, err := io.WriteString(w, shellHint); err != nil {
		return err
	}
	err = sh.loop(ctx)
	if a.console.history.err != nil {
		sh.warn("the history was not saved: %v", a.console.history.err)
	}
	return err
}

// warn tells a person about something that ends nothing.
func (sh *shell) warn(format string, args ...any) {
	// Nothing is left to tell a failed write to.
	_, _ = fmt.Fprintf(sh.a.stderr, "siglake: "+format+"\n", args...)
}

// errQuit ends the shell without an error.
var errQuit = errors.New("quit")

// loop reads and runs until the end of the input, \q or, unless a person types, the first error.
func (sh *shell) loop(ctx context.Context) error {
	for {
		prompt := promptFirst
		if _, ok := sh.split.rest(); ok {
			prompt = promptMore
		}
		line, err := sh.in.next(ctx, prompt)
		switch {
		case errors.Is(err, errInterrupted):
			sh.split.reset()
			continue
		case errors.Is(err, io.EOF):
			rest, ok := sh.split.rest()
			if sh.typed || !ok {
				return nil
			}
			return sh.statement(ctx, rest)
		case err != nil:
			return err
		}
		err = sh.line(ctx, line)
		switch {
		case errors.Is(err, errQuit):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !sh.typed:
			return err
		case err != nil:
			sh.warn("%v", err)
		}
	}
}

// line runs what one line completes.
func (sh *shell) line(ctx context.Context, line string) error {
	if _, ok := sh.split.rest(); !ok {
		words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), ";"))
		if len(words) == 1 {
			words[0] = cmp.Or(otherShells[strings.ToLower(words[0])], words[0])
		}
		if len(words) > 0 && strings.HasPrefix(words[0], `\`) {
			sh.split.reset()
			return sh.interruptible(ctx, func(ctx context.Context) error { return sh.command(ctx, words) })
		}
	}
	for _, statement := range sh.split.add(line) {
		if err := sh.statement(ctx, statement); err != nil {
			sh.split.reset() // what follows on the line was meant for after it
			return err
		}
	}
	if rest, _ := sh.split.rest(); len(rest) > maxStatement {
		sh.split.reset()
		return errLongStatement()
	}
	return nil
}

// otherShells are words that people know from other shells. Alone on a line they are no SQL.
var otherShells = map[string]string{"quit": `\q`, "exit": `\q`, "help": `\?`}

func (sh *shell) statement(ctx context.Context, statement string) error {
	return sh.interruptible(ctx, func(ctx context.Context) error { return sh.r.run(ctx, statement) })
}

// interruptible runs do with a context that Ctrl-C ends.
func (sh *shell) interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := sh.a.interrupt(ctx)
	defer stop()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

func (sh *shell) setTiming(on bool) {
	sh.timing, sh.r.stats = on, nil
	if on {
		sh.r.stats = sh.a.stderr
	}
}
