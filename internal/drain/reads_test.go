package drain

import (
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// slowReads counts the segments that are being opened to be decoded, each for a second of simulated time.
type slowReads struct {
	vfs.FS

	now, most atomic.Int64
}

func (s *slowReads) Open(name string) (vfs.File, error) {
	if filepath.Base(filepath.Dir(name)) == string(segment.Processing) {
		s.most.Store(max(s.most.Load(), s.now.Add(1)))
		time.Sleep(time.Second)
		s.now.Add(-1)
	}
	return s.FS.Open(name)
}

// Decoding leaves a core to the requests of the process, whatever waits to be drained.
func TestOnce_reads_leave_a_core(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := onDisk(t)
		for range 20 {
			w.seal(spec{})
		}
		reads := &slowReads{FS: w.opt.FS}
		w.opt.FS = reads
		require.Empty(t, w.once().Failures)
		w.accounted()
		require.EqualValues(t, max(1, runtime.GOMAXPROCS(0)-1), reads.most.Load())
	})
}
