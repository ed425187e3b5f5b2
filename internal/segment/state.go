package segment

import "slices"

// State is a directory of a lane. The zero value is no state.
type State string

// The states, and MirrorPending, which holds pins and is no state.
const (
	Active        State = "active"
	Sealed        State = "sealed"
	Processing    State = "processing"
	Committed     State = "committed"
	MirrorPending State = "mirror-pending"
	Orphans       State = "orphans"
	Poison        State = "poison"
	Stale         State = "stale"
)

// ranked returns the states from the lowest to the highest. Of two names of one file the higher is the later
// event, except after an interrupted Move back to sealed/, which is thereby undone: the drain decides again.
func ranked() []State {
	return []State{Active, Sealed, Processing, Orphans, Stale, Poison, Committed}
}

// dirs returns every directory that Prepare makes.
func dirs() []State { return append(ranked(), MirrorPending) }

// Outranks tells whether a segment with a name in both s and other is in s.
func (s State) Outranks(other State) bool {
	return slices.Index(ranked(), s) > slices.Index(ranked(), other)
}
