// Package powercut cuts the power of a real file system under the built collector: log, catalog and tables on ext4 and xfs
// on a loop device, cut in mid-load, journal replayed, collector started again, drained, and counted by the independent
// reader (ACK-1, ACK-2, ONE-1, LAKE-1). What the device itself holds in a cache of its own is not lost here: a loop device
// keeps all that was written to it.
package powercut
