// Command siglake is the operator's command line: what is in the write-ahead log and in the tables, whether it is
// whole, and what the tables say. It works beside a running collector and changes nothing, with the one exception
// of drain --once.
//
// Each command is one file over the packages below internal/. Only sql needs cgo (DuckDB); a build without it has
// every other command and says which build has sql.
//
// Exit codes: 0 done; 1 failed; 2 wrong usage or a wrong place, such as a path that is no WAL root; 3 damage found.
//
// Invariants: LOUD-1 (verify names every damaged segment), LAKE-1 (sql reads exactly the files of one snapshot of
// each table, or refuses).
package main
