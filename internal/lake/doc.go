// Package lake keeps rows of WAL segments in Apache Iceberg tables, each row exactly once.
//
// It owns everything that speaks Iceberg: the catalog, the shape of the tables, the Parquet files, the commit and
// the proof of what was committed. Nothing else in the repository imports iceberg-go.
//
// A commit is one Iceberg transaction that carries the data files, the table property siglake.consumed-proof (which
// segments, how many rows of each) and the snapshot summary siglake.commit-id. An error of a commit decides nothing:
// the table is loaded again and the proof, or the rows themselves, say whether it landed.
//
// Invariants:
//
//   - LAKE-1: each row of a segment is in its table exactly once, also when the outcome of a commit is unknown,
//     when several processes commit the same segment, and when a segment is offered again after any crash.
//   - LOUD-1: an unreadable proof, a table of another incarnation and a catalog that went back in time stop the
//     table with an error that says so; none of them is read as "nothing was committed".
//
// Every file is synced, and its name too, before the catalog points at it (localio.go), because the WAL copy of the
// rows is deleted once the commit is proved.
package lake
