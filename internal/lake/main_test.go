package lake

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := closeServices(); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}
