package wal

import (
	"errors"
	"fmt"
)

// What callers branch on. Every other error of Append is trouble with the storage: the rows may or may not be
// on disk, and were not promised.
var (
	ErrClosed  = errors.New("wal: closed")
	ErrFull    = errors.New("wal: no room")
	ErrRequest = errors.New("wal: malformed request") // a caller's mistake, nothing written
)

// The limits that refuse, as in the configuration.
const (
	limitInFlight = "max_in_flight"
	limitBytes    = "max_bytes"
	limitFree     = "min_free"
)

// LimitError says which limit refused a request before anything was written. errors.Is(err, ErrFull).
type LimitError struct {
	Limit string // the setting: max_in_flight, max_bytes or min_free
	Used  int64  // bytes in use; for min_free, bytes free
	Max   int64  // bytes allowed; for min_free, bytes that must stay free
}

func (e *LimitError) Error() string {
	if e.Limit == limitFree {
		return fmt.Sprintf("wal: %d bytes free on the volume, %s keeps %d", e.Used, e.Limit, e.Max)
	}
	return fmt.Sprintf("wal: %d of %d bytes of %s in use", e.Used, e.Max, e.Limit)
}

// Is makes every LimitError an ErrFull.
func (e *LimitError) Is(target error) bool { return target == ErrFull }
