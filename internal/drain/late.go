package drain

import (
	"time"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
)

const (
	// lateAtOnce bounds how many batches of late segments are in hand at a time: half of all. One of them may write a
	// file for each of 2,000 days.
	lateAtOnce = lanesAtOnce / 2

	// filePace is how long late segments of a lane wait for each file that the last commit of such made, so that rows of
	// the same day come to share one; and longestLate how long at most.
	filePace    = time.Second
	longestLate = 5 * time.Minute

	day = 24 * time.Hour
)

// late tells whether a segment has rows of another time than its own: more than a day before it was sealed, or after.
// Such rows lie in partitions that others do not write to, and maybe in very many (ADR 0030).
func late(h frame.Header, sealed time.Time) bool {
	if h.MinTime == 0 && h.MaxTime == 0 {
		return false // not known
	}
	return time.Unix(0, h.MinTime).Before(sealed.Add(-day)) || time.Unix(0, h.MaxTime).After(sealed.Add(day))
}

// turns parts what is due into what is late and what is not, whose turn it is first. They share no batch and take
// turns: a year of late rows does not hold up those of today, nor the other way round.
func (l *lane) turns(due []*file) [2][]*file {
	var prompt, behind []*file
	for _, f := range due {
		if f.late {
			behind = append(behind, f)
		} else {
			prompt = append(prompt, f)
		}
	}
	if l.lateTurn {
		return [2][]*file{behind, prompt}
	}
	return [2][]*file{prompt, behind}
}

// pace sets the gate for the late segments that come next by the files of these.
func (l *lane) pace(group []item, out lake.Outcome) {
	if group[0].file.late && out.RowsWritten > 0 {
		l.lateAge = min(time.Duration(out.FilesWritten)*filePace, longestLate)
	}
}
