package main

import (
	"context"
	"io"
	"os"
	"os/signal"
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
	root.SetArgs(args)
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	return report(env.stderr, a.started, root.ExecuteContext(ctx))
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
