package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asProgram makes the test binary run as siglake itself, for tests that need a process of its own.
const asProgram = "SIGLAKE_TEST_AS_PROGRAM"

// asWriter names a log that the test binary appends three rows to; then it waits to be killed.
const asWriter = "SIGLAKE_TEST_AS_WRITER"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	if dir := os.Getenv(asWriter); dir != "" {
		writeUntilKilled(dir)
		return
	}
	goleak.VerifyTestMain(m)
}
