// Package segment owns the names of segments and the directories that are their states: the life cycle.
//
// A segment's state is the directory its name is in, below <root>/<tenant>/<index>/ (a lane):
//
//	active/X.arrow.partial   being written, or left by a dead writer
//	sealed/X.arrow           complete, waits for the drain
//	processing/X.arrow       claimed by the drain
//	committed/X.arrow        in the table, kept for consumers
//	orphans/X.arrow          found in processing/ at the start of a drain: committed or not, to be proved
//	poison/X.arrow           unreadable, with a note X.arrow.json
//	poison/X.arrow.salvaged  the damaged original of a segment whose sound beginning went back to sealed/; no state
//	stale/<uuid>/X.arrow     belongs to another incarnation of the table
//	mirror-pending/X.arrow   a pin: a second name that keeps the bytes until they are uploaded; no state
//
// A state changes by the one Move: link, sync the destination, unlink, sync the source, on batches. A crash
// leaves a segment with one name or with two, never with none; Resolve leaves one. docs/lifecycle.md has every
// event, its operations in order, and who repairs what a crash leaves.
//
// Who may move what. Moves towards a later state (State.Outranks) are safe beside each other in any number of
// processes, because the highest name of a segment is never unlinked. A Move to an earlier state (release,
// requeue) beside any other Move of the same segment can unlink both names; so can Resolve beside such a Move.
// Therefore only the holder of <root>/drain.lock moves a segment to an earlier state or resolves what is
// beyond active/.
//
// Invariants (docs/invariants.md): ONE-1 one state per id after Resolve; LOUD-1 nothing is deleted but a name
// whose bytes are kept under another, or, in Retire, what the caller has proved committed; RET-1 Retire takes
// names from committed/ only, the proof is the caller's.
package segment
