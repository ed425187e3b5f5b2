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

	"golang.org/x/term"

	"github.com/siglakecol/siglakecol/internal/vfs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, environment{
		fs: vfs.OS(), kernel: thisKernel(), now: time.Now, getenv: os.Getenv,
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		terminal: term.IsTerminal(int(os.Stderr.Fd())), console: openConsole(os.Stdin, os.Stdout, os.Stderr),
		interrupt: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return signal.NotifyContext(ctx, os.Interrupt)
		},
	}, os.Args[1:])
	stop()
	os.Exit(code)
}

// environment is all that a command takes from outside its flags.
type environment struct {
	fs             vfs.FS
	kernel         kernel
	now            func() time.Time
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool     // stderr is one: progress may be drawn there
	console        *console // where lines are typed; nil when nobody types
	// interrupt returns a context that Ctrl-C ends.
	interrupt func(context.Context) (context.Context, context.CancelFunc)
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, env environment, args []string) int {
	a := &app{environment: env, stop: func() {}}
	defer func() { a.stop() }()
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
