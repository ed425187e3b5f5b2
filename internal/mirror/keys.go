package mirror

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/siglakecol/siglakecol/internal/segment"
)

const (
	markerKey    = "siglake-mirror.json"
	activePrefix = "_active/"
	markerFormat = 1
)

// EmptyMarker is a siglake-mirror.json that names no root, for whoever has to put one back by hand.
const EmptyMarker = `{"format":1,"roots":[]}`

// marker is the content of siglake-mirror.json.
type marker struct {
	Format int         `json:"format"`
	Roots  []uuid.UUID `json:"roots"` // those that upload here
}

// MarkerError says that siglake-mirror.json is there and cannot be understood.
type MarkerError struct {
	Newer bool // a newer version wrote it; otherwise it is damaged
	Err   error
}

func (e *MarkerError) Error() string { return e.Err.Error() }
func (e *MarkerError) Unwrap() error { return e.Err }

// sealedKey is where a sealed segment goes.
func sealedKey(lane string, id segment.ID) string { return lane + "/" + id.FileName() }

// activeKey is where the beginning of an open segment goes.
func activeKey(lane string, id segment.ID) string {
	return activePrefix + lane + "/" + id.PartialName()
}

// object is what a key names.
type object struct {
	tenant, index string
	id            segment.ID
	active        bool
}

func (o object) lane() string { return o.tenant + "/" + o.index }

// parseKey reads the key of a segment. The reference system's layouts are read too: <tenant>/<segment> and a bare
// <segment>, of index events and tenant default, below _active/ as well.
func parseKey(key string) (object, bool) {
	rest, active := strings.CutPrefix(key, activePrefix)
	parts := strings.Split(rest, "/")
	o := object{tenant: segment.DefaultTenant, index: "events", active: active}
	switch len(parts) {
	case 1:
	case 2:
		o.tenant = parts[0]
	case 3:
		o.tenant, o.index = parts[0], parts[1]
	default:
		return object{}, false
	}
	id, partial, err := segment.ParseName(parts[len(parts)-1])
	if err != nil || partial != active || segment.CheckTenant(o.tenant) != nil || segment.CheckIndex(o.index) != nil {
		return object{}, false
	}
	o.id = id
	return o, true
}

// levels is how many of the directories that we have above a segment, those of tenant and index, its key lacks.
func (f find) levels() int { return 2 - strings.Count(strings.TrimPrefix(f.key, activePrefix), "/") }

// parseMarker reads siglake-mirror.json.
func parseMarker(b []byte) (marker, error) {
	var m marker
	if err := json.Unmarshal(b, &m); err != nil {
		return marker{}, &MarkerError{Err: fmt.Errorf("read %s: %w", markerKey, err)}
	}
	if m.Format != markerFormat {
		err := fmt.Errorf("read %s: format %d, this version knows %d", markerKey, m.Format, markerFormat)
		return marker{}, &MarkerError{Newer: m.Format > markerFormat, Err: err}
	}
	return m, nil
}
