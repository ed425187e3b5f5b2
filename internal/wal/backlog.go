package wal

import (
	"path/filepath"
	"time"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// The seconds over which it is looked at what the drain takes out. Its commits are seconds apart; over the longer time a
// busy drain has some, over the shorter one it is noticed that it works harder than before.
const (
	longLook  = 30
	shortLook = 10
)

// backlog is what a walk over the root finds on its way to the tables, whoever wrote it and whoever drains it.
type backlog struct {
	now    time.Time
	bytes  int64            // in sealed/ and processing/
	lanes  map[string]int64 // the same by the directory of the lane
	marked [longLook]int64  // bytes in committed/, by the age of their mark in seconds
}

func newBacklog(now time.Time) *backlog { return &backlog{now: now, lanes: map[string]int64{}} }

// note takes in a file of a directory.
func (b *backlog) note(dir string, info vfs.Info) {
	switch segment.State(filepath.Base(dir)) {
	case segment.Sealed, segment.Processing:
		b.bytes += info.Size
		b.lanes[filepath.Dir(dir)] += info.Size
	case segment.Committed:
		if age := b.now.Sub(info.ModTime); age >= 0 && age < longLook*time.Second {
			b.marked[age/time.Second] += info.Size
		}
	case segment.Active, segment.MirrorPending, segment.Orphans, segment.Poison, segment.Stale:
	}
}

// rate is how many bytes a second the drain takes out of the log; 0 when it takes none, or one commit says nothing yet.
func (b *backlog) rate() float64 { return max(b.rateOver(shortLook), b.rateOver(longLook)) }

// rateOver is what was marked since the first commit of so many seconds. That commit itself belongs to the time before,
// and a retention of some seconds leaves no more than them.
func (b *backlog) rateOver(seconds int) float64 {
	var younger, sum int64
	first := 0
	for age, n := range b.marked[:seconds] {
		if n > 0 {
			younger, first = sum, age
		}
		sum += n
	}
	return float64(younger) / (float64(first) + .5)
}
