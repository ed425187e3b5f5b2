package segment

import (
	"errors"
	"fmt"
	"strings"
)

// Errors about tenant and index names. All satisfy errors.Is with ErrBadName: the sender must change the name.
var (
	ErrBadName      = errors.New("segment: name not allowed")
	ErrReservedName = fmt.Errorf("%w: reserved", ErrBadName)
	ErrCaseClash    = fmt.Errorf("%w: differs only in letter case from one that exists", ErrBadName)
)

const maxName = 128 // bytes; two of them and a state stay far below PATH_MAX, one below NAME_MAX (255)

// Names of files and directories in a root beside the tenants.
const (
	markerName  = "siglake-wal.json"
	reserveName = "siglake-wal.reserve" // no tenant's: they have no dots
	// LockName and DrainLockName are locked by the writer and by the drain of a root while they run.
	LockName      = "LOCK"
	DrainLockName = "drain.lock"
	// RestoreLockName is locked by whoever restores segments beside a drain: until it is done a number may be missing that is
	// about to come.
	RestoreLockName = "restore.lock"
	// DoctorName is the directory in which siglake doctor tries the volume while it runs.
	DoctorName    = "siglake-wal.doctor"
	drainWakeName = "drain.wake"
	// RetentionName is the record of what is known committed of a mirror's objects (internal/mirror).
	RetentionName = "mirror-retention.json"
	leasesName    = "leases"
	consumersName = "consumers"
	ownerName     = "owner"
	headName      = "head"

	damagedSuffix = ".damaged"
	numbersName   = "numbers.json"
)

// reserved tells whether a name, in any letter case, means something in a root, a lane or a mirror.
func reserved(name string) bool {
	switch strings.ToLower(name) {
	case "active", "sealed", "processing", "committed", "mirror-pending", "orphans", "poison", "stale",
		markerName, "lock", DrainLockName, RestoreLockName, drainWakeName, leasesName, consumersName, ownerName, headName,
		"_active", "siglake-mirror.json":
		return true
	}
	return false
}

// rootFile tells whether a name in a root is ours and no tenant.
func rootFile(name string) bool {
	switch name {
	case markerName, markerName + ".tmp", reserveName, DoctorName, LockName, DrainLockName, RestoreLockName, drainWakeName, leasesName,
		consumersName, RetentionName, RetentionName + ".tmp":
		return true
	}
	return strings.HasPrefix(name, markerName+damagedSuffix)
}

// DefaultTenant is the tenant of requests where tenancy is off. No other spelling of it is a tenant: where tenancy
// is switched off again, its rows must have their place.
const DefaultTenant = "default"

// CheckTenant accepts [A-Za-z0-9_-]{1,128}.
//
//	errors  ErrBadName, ErrReservedName, ErrCaseClash (all satisfy errors.Is ErrBadName)
func CheckTenant(name string) error {
	ok := len(name) > 0 && len(name) <= maxName
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = lowerOrDigit(c) || c >= 'A' && c <= 'Z' || c == '_' || c == '-'
	}
	if strings.EqualFold(name, DefaultTenant) && name != DefaultTenant {
		return fmt.Errorf("tenant %q: %w: %q", name, ErrCaseClash, DefaultTenant)
	}
	return verdict("tenant", name, ok, "[A-Za-z0-9_-]{1,128}")
}

// CheckIndex accepts [a-z0-9][a-z0-9_-]{0,127}.
//
//	errors  ErrBadName, ErrReservedName (all satisfy errors.Is ErrBadName)
func CheckIndex(name string) error {
	ok := len(name) > 0 && len(name) <= maxName && lowerOrDigit(name[0])
	for i := 1; ok && i < len(name); i++ {
		c := name[i]
		ok = lowerOrDigit(c) || c == '_' || c == '-'
	}
	return verdict("index", name, ok, "[a-z0-9][a-z0-9_-]{0,127}")
}

func lowerOrDigit(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

func verdict(what, name string, ok bool, want string) error {
	switch {
	case reserved(name):
		return fmt.Errorf("%s %.140q: %w", what, name, ErrReservedName)
	case !ok:
		return fmt.Errorf("%s %.140q: %w: want %s", what, name, ErrBadName, want)
	}
	return nil
}
