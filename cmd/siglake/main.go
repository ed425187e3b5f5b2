package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, environment{
		fs: vfs.OS(), now: time.Now, getenv: os.Getenv,
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal(os.Stderr),
	}, os.Args[1:])
	stop()
	os.Exit(code)
}

// environment is all that a command takes from outside its flags.
type environment struct {
	fs             vfs.FS
	now            func() time.Time
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool // stderr is one: progress may be drawn there
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, env environment, args []string) int {
	a := &app{environment: env}
	root := newRoot(a)
	root.SetArgs(commentsAreArguments(args))
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	return report(env.stderr, a.started, root.ExecuteContext(ctx))
}

// commentsAreArguments returns args with a space before each that begins with an SQL comment: to the parser of flags
// "-- text" would be a flag. What follows a bare "--" is never a flag.
func commentsAreArguments(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		if len(arg) > 2 && arg[:2] == "--" && strings.ContainsRune(" \t\r\n", rune(arg[2])) {
			out[i] = " " + arg
		}
	}
	return out
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
