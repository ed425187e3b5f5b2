// Package frame owns the bytes of a segment: the 52-byte header, the Arrow IPC stream behind it and the rules
// by which a reader tells a whole segment, a torn one and a damaged one apart. The byte tables are in
// docs/format.md.
//
// A segment is read in a fixed order, each step before the next one trusts anything: magic, version, header
// check, length, CRC, then a walk over every length in the body against the bytes that are really there, and
// only then the decoding of columns. arrow-go is not trusted with raw lengths: its reader takes a truncated
// message for a clean end, and a bad length makes it panic or allocate gigabytes.
//
// Invariants: ACK-2 (only whole record batches come out, each exactly as it was encoded), SEE-1 (the tolerant
// reader returns a prefix of what the strict reader returns for the finished file), LOUD-1 (what is not a torn
// tail is an error that names the offset; a torn tail is reported in bytes).
package frame
