// Package wal is the writer of the write-ahead log: it appends Arrow record batches to segments, answers when a
// batch is as durable as its mode asks, seals full segments, and at start recovers what a crash left open.
//
// A lane is one tenant and index. While it has work, one goroutine owns its open segment: it takes all that is
// queued, writes it with one Writev and syncs it at most once (group commit). A second goroutine seals what the
// first has filled, so that sealing never stalls an answer. An idle lane has neither.
//
// What an answer means (docs/format.md has the bytes):
//
//	Auto     write(2) of the batch returned. No sync of any kind on the way to the answer, except that the first
//	         request of a lane that never existed waits for its directories to be made durably.
//	WaitFor  also a sync of the segment and, once per segment, of active/, which names it. The directories above
//	         are durable before the segment is created.
//
// An open segment, and how its trouble ends:
//
//	write cut short     truncate to the last whole request; that prefix is kept and answered, the rest refused
//	truncate refused    nothing more is appended; the good prefix is copied to a fresh file of the same name
//	sync refused        the group is refused, nothing on that file is answered again; copied likewise
//	seal refused        retried in the background; after a refused sync on a fresh copy
//	process ends        the next Open syncs the partial and its directory, then moves it to sealed/ unchanged
//
// Copying keeps the segment's id: the copy is verified against the running CRC, synced and renamed over the
// damaged file, so there is one name with one content at every moment.
//
// Invariants: ACK-1 (acked under WaitFor survives every crash), ACK-2 (only whole batches), ORD-1 (a writer's
// rows come back as a prefix of what it wrote, refused requests apart), SEE-1 (recovery syncs before it shows),
// ONE-1 (one state per id after Open, no temporary file), LOUD-1 (damage is set aside with a note, logged and
// counted, never deleted).
package wal
