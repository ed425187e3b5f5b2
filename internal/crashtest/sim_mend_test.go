package crashtest

import (
	"errors"
	"math"
	"path/filepath"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// mend is what docs/operations/disaster-recovery.md tells an operator to do about records of the log that are damaged, and are
// named in an error: they are moved out of it, and before a head is, somebody looks that the catalog has not gone back.
func (w *sim) mend() {
	w.operate(func(p *proc, l segment.Lane, lane string) bool {
		if _, err := l.Owner(); errors.Is(err, segment.ErrRecord) {
			_ = p.fs.Remove(filepath.Join(l.Dir(""), "owner"))
		}
		if _, _, err := l.Head(); errors.Is(err, segment.ErrRecord) && !p.dead.Load() {
			w.tables.forward(lane, math.MaxInt64)
			_ = p.fs.Remove(filepath.Join(l.Dir(""), "head"))
		}
		return true
	})
}
