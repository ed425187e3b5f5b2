// Package drain moves sealed segments of the write-ahead log into Iceberg tables, each row exactly once.
//
// One drain works on one root; it holds <root>/drain.lock for its life, and a second one stands by. A lane
// (tenant, index) is drained by one pass at a time, lanes side by side. The states a segment goes through
// and the order of the operations, each durable before the next begins:
//
//	claim    sealed → processing (one Move for the batch)
//	read     every byte checked; unreadable: back to sealed, the third time to poison
//	table    lake.Ensure; when the lane is bound to the table: head, then owner
//	commit   lake.Commit: files, proof and pointer in one transaction
//	head     what the catalog says now, so that an older catalog is noticed
//	mark     modification time set to now, then processing → committed (one Move)
//	retire   unlinked from committed when the mark is old enough and no pin names it; after a restart the table is
//	         asked first
//
// Segments with rows of another day than their own (late.go) share no commit with others and take turns with them.
//
// A crash before the commit leaves segments in processing whose rows the table lacks, one after it segments
// whose rows it has. Which of the two, the next start asks the table: processing → orphans, then → committed
// or → sealed. Nobody guesses: what cannot be asked is held and reported.
//
// RequeueSegments and DisposeOrphans are what an operator does about what is set aside, and CompareOrphans what the
// operator goes by; they hold the lock in the drain's place.
//
// Memory: the segments in flight hold at most MaxBytesInFlight bytes of files (one larger segment is taken
// alone). With what decoding, sorting and the Parquet writer need, and garbage at GOGC=100, the heap stays below
// 4 x MaxBytesInFlight + 200 MiB (BenchmarkOnce: 3.1 x and 163 MiB with four lanes at work).
//
// Holds LAKE-1 (rows in the table exactly once), LOUD-1 (damage is set aside with a note, never skipped or
// deleted), RET-1 (retired only with proof), ONE-1 (with segment.Resolve, one state per id after a start)
// and BND-1 (what is committed leaves the disk).
package drain
