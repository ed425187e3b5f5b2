package lake

import (
	"cmp"
	"time"
)

// limits bound what one transaction holds and how long it is tried. Tests make them small.
type limits struct {
	// partitions in one transaction, if its files have fileRows rows each in the middle. Where rows lie so far apart that
	// they have not, more of them share a file when the transaction goes on: up to scattered partitions, which takes some
	// 11 s on a local disk and so fits into the grace of a drain that is told to stop (ADR 0030).
	partitions int
	scattered  int
	fileRows   int
	// segments in one transaction. Its ids must all fit the proof, which is rewritten with each commit: 2,048 ids
	// are about 50 KB of metadata.json.
	segments int
	// proofEntries and proofBytes bound the proof apart from the newest commit, whose ids always stay.
	proofEntries int
	proofBytes   int
	// droppedEntries and droppedAge bound what a process remembers of the ids that a table's proof has dropped: 130 bytes each.
	droppedEntries int
	droppedAge     time.Duration
	// fileBytes is the size, compressed, at which a data file ends (design: 128 MiB).
	fileBytes int64
	// rowGroupBytes is the size, compressed, at which a row group ends: this much is held in memory.
	rowGroupBytes int64
	// chunkRows and chunkBytes bound the rows that are in table form at one time.
	chunkRows  int
	chunkBytes int64
	// attempts to commit one transaction, and the time given to one answer of the catalog. The time is generous:
	// a catalog that answers late is only a delay, an answer not waited for is an outcome to find out.
	attempts      int
	commitTimeout time.Duration
	// storePatience is how long one step of a transfer may take, 1 MiB and what is in flight before it. The SDK tries
	// three times within it.
	storePatience time.Duration
	// backoff is the first wait between attempts; it doubles up to backoffMax, and a random part of it is waited.
	backoff    time.Duration
	backoffMax time.Duration
	// turnWait is how long maintenance waits for the turn to commit to a table.
	turnWait time.Duration
	// orphanAge is how old an unreachable file must be to be removed. A commit gives its files up at half of it.
	orphanAge time.Duration
}

func (l limits) orDefault() limits {
	return limits{
		partitions:     cmp.Or(l.partitions, 200),
		scattered:      cmp.Or(l.scattered, 2000),
		fileRows:       cmp.Or(l.fileRows, 50),
		segments:       cmp.Or(l.segments, 2048),
		proofEntries:   cmp.Or(l.proofEntries, 2048),
		proofBytes:     cmp.Or(l.proofBytes, 128<<10),
		droppedEntries: cmp.Or(l.droppedEntries, 32<<10),
		droppedAge:     cmp.Or(l.droppedAge, 15*time.Minute),
		fileBytes:      cmp.Or(l.fileBytes, 128<<20),
		rowGroupBytes:  cmp.Or(l.rowGroupBytes, 64<<20),
		chunkRows:      cmp.Or(l.chunkRows, 8192),
		chunkBytes:     cmp.Or(l.chunkBytes, 16<<20),
		attempts:       cmp.Or(l.attempts, 20),
		commitTimeout:  cmp.Or(l.commitTimeout, time.Minute),
		storePatience:  cmp.Or(l.storePatience, 3*time.Minute),
		backoff:        cmp.Or(l.backoff, 50*time.Millisecond),
		backoffMax:     cmp.Or(l.backoffMax, 5*time.Second),
		turnWait:       cmp.Or(l.turnWait, 30*time.Second),
		orphanAge:      cmp.Or(l.orphanAge, LeastOrphanAge),
	}
}
