package crashtest

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a quarter of the time would go to collecting thousands of small disks
	goleak.VerifyTestMain(m)
}
