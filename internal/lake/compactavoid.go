package lake

import "time"

const (
	// avoidFirst is how long a data file that could not be read is left out of merges at first. It doubles with each time,
	// up to avoidMost.
	avoidFirst = time.Minute
	avoidMost  = time.Hour
)

// avoided is a data file that is left out of merges.
type avoided struct {
	until time.Time // zero: for good
	tries int       // that failed
}

func (a avoided) still(now time.Time) bool { return a.until.IsZero() || now.Before(a.until) }

// again puts the next try off, and returns for how long.
func (a *avoided) again(now time.Time) time.Duration {
	wait := min(avoidFirst<<min(a.tries, 10), avoidMost)
	a.tries++
	a.until = now.Add(wait)
	return wait
}

// unreadError says that a data file could not be read: it is damaged or gone, or its store is in trouble.
type unreadError struct {
	path string
	err  error // names the file as well
}

func (e *unreadError) Error() string { return e.err.Error() }

func (e *unreadError) Unwrap() error { return e.err }

// waits tells whether a file of the table is left out because it could not be read.
func (e *compacted) waits(now time.Time) bool {
	for _, a := range e.avoid {
		if !a.until.IsZero() && a.still(now) {
			return true
		}
	}
	return false
}
