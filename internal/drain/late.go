package drain

import (
	"context"
	"slices"
	"sync"
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

// lateTurns lets the lanes commit late segments lateAtOnce at a time, first come first served. A lane that has to wait is
// told so and does something else: its segments of today do not wait with it.
type lateTurns struct {
	mu     sync.Mutex
	inHand int
	queue  []*lane // those that were told to wait
}

// take gives the lane a turn, to be given back by done, or puts it into the queue.
func (q *lateTurns) take(l *lane) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.queue, l)
	if at < 0 {
		at = len(q.queue)
		q.queue = append(q.queue, l)
	}
	if at >= lateAtOnce-q.inHand {
		return false
	}
	q.queue = slices.Delete(q.queue, at, at+1)
	q.inHand++
	return true
}

func (q *lateTurns) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inHand--
}

// leave takes a lane out of the queue, because it has no use for a turn now.
func (q *lateTurns) leave(l *lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = slices.DeleteFunc(q.queue, func(other *lane) bool { return other == l })
}

// takeLateTurn is lateTurns.take. A lane of Once, which has nothing to come back for, waits for its turn.
func (l *lane) takeLateTurn(ctx context.Context) bool {
	for {
		if l.waits = !l.d.lates.take(l); !l.waits {
			return true
		}
		if !l.d.once || !sleep(ctx, wakePoll) {
			return false
		}
	}
}

// pace sets the gate for the late segments that come next by the files of these.
func (l *lane) pace(group []item, out lake.Outcome) {
	if group[0].file.late && out.RowsWritten > 0 {
		l.lateAge = min(time.Duration(out.FilesWritten)*filePace, longestLate)
	}
}
