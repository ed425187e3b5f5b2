package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
)

// Exit codes. They are documented in the help text and in docs.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitDamage = 3
	exitUnfit  = 4
)

// exitError carries the exit code of an error that is not a plain failure.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func damageError(format string, args ...any) error {
	return &exitError{exitDamage, fmt.Errorf(format, args...)}
}

// report writes the error of a command and returns the exit code. What cobra refuses before a command has
// started is wrong usage.
func report(w io.Writer, started bool, err error) int {
	if err == nil {
		return exitOK
	}
	code := exitFailed
	var ee *exitError
	switch {
	case errors.As(err, &ee):
		code = ee.code
	case !started, errors.Is(err, segment.ErrNotRoot), errors.Is(err, lake.ErrNoCatalog):
		code = exitUsage
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	// Nothing is left to tell a failed write to.
	_, _ = fmt.Fprintf(w, "siglake: %v\n", err)
	return code
}
