// Package mirror copies sealed segments of a WAL root to an object store and rebuilds a root from there.
//
// A segment that the writer seals has a pin, a second name in mirror-pending/, before a drain can see it. The mirror
// uploads it, confirms the object, and removes the pin:
//
//	pin → upload → confirm → unpin      a crash in between leaves the pin; the next sweep goes on where it stopped
//
// Objects, below the URL of the store (docs/format.md):
//
//	siglake-mirror.json                                     marks a mirror: format, UUIDs of the roots
//	<tenant>/<index>/<segment>.arrow                        a sealed segment, whole
//	_active/<tenant>/<index>/<segment>.arrow.partial        the beginning of an open one
//
// An object is made once and never overwritten, _active/ apart. One that is there and is the same is a success; one
// that differs is an alarm, and the pin stays.
//
// Invariants (docs/invariants.md): PIN-1 a pin goes only after its object is confirmed, size and checksum; MIR-1 an
// object bears a segment's name only when it is that segment, whole.
package mirror
