package crashtest

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A quarter of the time would go to collecting thousands of small disks.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(512 << 20)
	goleak.VerifyTestMain(m)
}
