package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asProgram makes the test binary run as siglake itself, for tests that need a process of its own.
const asProgram = "SIGLAKE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}
