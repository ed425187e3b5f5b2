package wal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
)

// earlyShare is the percentage of the soft mark at which pins begin to go: before any request is refused.
const earlyShare = 87

// short is by how many bytes the log is beyond the marks from which room is made: earlyShare of the soft mark of
// max_bytes, and half as much again as min_free. Negative: so much is left.
func (s *space) short() int64 {
	u := s.look()
	return max(u.used-u.limit/100*softShare/100*earlyShare, u.floor+u.floor/2-u.free)
}

// pinned is a segment in committed/ that has a pin.
type pinned struct {
	lane segment.Lane
	id   segment.ID
	size int64
	at   time.Time // when it was marked
}

// releasePins gives up pins of segments that are in committed/, the oldest first, as many as it takes to come away from
// the disk's limits: an object store that is away may cost copies of what is in the tables, and not the room that
// requests need. The drain retires those segments then, after it has asked the table as ever. A pin of anything else
// stays whatever happens.
func (l *Log) releasePins() {
	short := l.space.short()
	if short <= 0 {
		clear(l.released)
		return
	}
	found, going, err := l.pinnedCommitted()
	slices.SortFunc(found, func(a, b pinned) int { return a.at.Compare(b.at) })
	short -= going
	var bytes int64
	n := 0
	touched := map[string]segment.Lane{}
	for _, p := range found {
		if short <= 0 {
			break
		}
		if uerr := p.lane.Unpin(p.id); uerr != nil {
			err = errors.Join(err, uerr)
			continue
		}
		touched[p.lane.Dir("")] = p.lane
		l.released[p.id] = true
		short -= p.size
		bytes += p.size
		n++
	}
	for _, lane := range touched {
		err = errors.Join(err, lane.SyncPins())
	}
	if n > 0 {
		l.met.released.Add(context.Background(), int64(n))
		l.opt.Logger.Warn("pins given up because the disk is nearly full: these segments are in their tables and may stay without a copy in the mirror",
			zap.Int("segments", n), zap.Int64("bytes", bytes))
	}
	if err != nil {
		l.opt.Logger.Warn("pins not given up, will be tried again", zap.Error(err))
	}
}

// pinnedCommitted finds the segments of committed/ that have a pin, and how many bytes will go without help: of those
// whose pins were given up before.
func (l *Log) pinnedCommitted() (found []pinned, going int64, err error) {
	lanes, _, err := l.root.Lanes()
	for _, lane := range lanes {
		pins, _, lerr := lane.List(segment.MirrorPending)
		committed, _, cerr := lane.List(segment.Committed)
		if lerr != nil || cerr != nil {
			err = errors.Join(err, lerr, cerr)
			continue
		}
		has := make(map[segment.ID]bool, len(pins))
		for _, e := range pins {
			has[e.ID] = true
		}
		for _, e := range committed {
			if !has[e.ID] && !l.released[e.ID] {
				continue
			}
			info, serr := l.fs.Stat(lane.Path(segment.Committed, e.Name))
			switch {
			case errors.Is(serr, fs.ErrNotExist): // retired
			case serr != nil:
				err = errors.Join(err, fmt.Errorf("look for pins: %w", serr))
			case has[e.ID]:
				found = append(found, pinned{lane, e.ID, info.Size, info.ModTime})
			default:
				going += info.Size
			}
		}
	}
	return found, going, err
}
