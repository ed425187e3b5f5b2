package lake

import (
	"errors"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// noSpace tells that a volume, or somebody's share of it, is full: another attempt a moment later meets the same, and whoever
// could make room has to hear of it.
func noSpace(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	db, ok := errors.AsType[*sqlite.Error](err)
	return ok && db.Code()&0xff == sqlite3.SQLITE_FULL // the rest of the code says more of the same
}
