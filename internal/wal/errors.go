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
	// ErrLockLost is answered while another process may have the root: nothing is written until it is known that
	// none has.
	ErrLockLost = errors.New("wal: the lock file is not ours any more")
)

// The limits that refuse, as in the configuration; limitShare is what a tenant may have of the first two.
const (
	limitInFlight = "max_in_flight"
	limitWaiting  = "max_waiting"
	limitShare    = "tenant_share"
	limitBytes    = "max_bytes"
	limitFree     = "min_free"
	limitLanes    = "max_lanes"
	limitTenants  = "max_tenants"
)

// limits are all of them, in the order in which a request meets them.
func limits() []string {
	return []string{limitInFlight, limitWaiting, limitShare, limitBytes, limitFree, limitLanes, limitTenants}
}

// LimitError says which limit refused a request before anything was written. errors.Is(err, ErrFull).
type LimitError struct {
	Limit string // the setting, or tenant_share
	Of    string // for tenant_share the setting that is shared
	Used  int64  // in use, of the limit's unit; for min_free, bytes free
	Max   int64  // allowed; for min_free, bytes that must stay free
}

func (e *LimitError) Error() string {
	switch e.Limit {
	case limitFree:
		return fmt.Sprintf("wal: %d bytes free on the volume, %s keeps %d", e.Used, e.Limit, e.Max)
	case limitShare:
		return fmt.Sprintf("wal: this tenant uses %d %s of %s, more than %d is not its share now", e.Used, unit(e.Of), e.Of, e.Max)
	default:
		return fmt.Sprintf("wal: %d of %d %s of %s in use", e.Used, e.Max, unit(e.Limit), e.Limit)
	}
}

func unit(limit string) string {
	switch limit {
	case limitWaiting:
		return "requests"
	case limitLanes:
		return "lanes"
	case limitTenants:
		return "tenants"
	default:
		return "bytes"
	}
}

// Is makes every LimitError an ErrFull.
func (e *LimitError) Is(target error) bool { return target == ErrFull }
