package crashtest

import (
	"errors"
	"math"
	"path/filepath"
	"strings"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// mend is what docs/operations/disaster-recovery.md tells an operator to do about records of the log that are damaged, and are
// named in an error: they are moved out of it, and before a head is, somebody looks that the catalog has not gone back.
func (w *sim) mend() {
	p := w.start(theOperator)
	defer p.buried()
	defer p.die()
	lock, err := p.fs.Lock(filepath.Join(root, segment.DrainLockName), theOperator)
	if err != nil {
		return // a drain works
	}
	defer func() { _ = lock.Close() }()
	r, err := segment.Open(p.fs, root)
	if err != nil {
		return
	}
	lanes, _, err := r.Lanes()
	if err != nil {
		return
	}
	for _, l := range lanes {
		lane := strings.TrimSuffix(strings.TrimPrefix(l.Dir(""), root+"/"), "/")
		if _, err := l.Owner(); errors.Is(err, segment.ErrRecord) {
			_ = p.fs.Remove(filepath.Join(l.Dir(""), "owner"))
		}
		if _, _, err := l.Head(); errors.Is(err, segment.ErrRecord) && !p.dead.Load() {
			w.tables.forward(lane, math.MaxInt64)
			_ = p.fs.Remove(filepath.Join(l.Dir(""), "head"))
		}
	}
}
