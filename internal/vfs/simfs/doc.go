// Package simfs is a disk in memory that loses what a real one may lose: the test double of vfs.OS for crashes
// and faults. Tests only.
//
// What it models:
//
//   - File data: durable bytes and the unsynced writes and truncates since. Sync saves the bytes of the inode,
//     not its name. A file can have many names and stays one inode across a crash.
//   - Directories: durable entries and the unsynced adds, removes and renames since. SyncDir saves the names in
//     that one directory, not the bytes behind them. A directory whose own name is not durable goes with all
//     that is below it.
//   - A rename within a directory is atomic. Across directories it is two entries that KeepAny may part.
//   - Crash returns the disk as the machine finds it afterwards, by policy; the old one may go on.
//   - After a failed Sync the unsynced bytes can never become durable, though reads still see them, as on Linux.
//   - The modification time set by Touch is saved by no Sync.
//
// Every operation has a number k. A Hook sees it before it happens and may fail it, shorten a write, or switch
// the machine off; Ops returns the log. Not modelled: stale blocks showing up as file content, errors on read
// of their own accord, reordering within a synced region.
package simfs
