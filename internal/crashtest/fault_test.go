package crashtest

import (
	"sync/atomic"

	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// fault is an operation that fails, and for how many of its kind in a row.
type fault struct {
	kinds []simfs.Kind
	err   error
	times int
}

var faults = map[string]fault{
	"": {},
}

// hook fails the n-th operation that matches.
func (f fault) hook(n int) func(simfs.Op) error {
	var seen atomic.Int64
	return func(op simfs.Op) error {
		for _, kind := range f.kinds {
			if op.Kind != kind {
				continue
			}
			if i := int(seen.Add(1)) - 1; i >= n && i < n+f.times {
				return f.err
			}
		}
		return nil
	}
}
