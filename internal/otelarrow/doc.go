// Package otelarrow turns OTLP requests into Arrow record batches for the
// write-ahead log, and those batches into rows of the Iceberg tables.
//
// The columns of the tables are declared once, in columns.go; WALSchema,
// TableSchema and the column tables of docs/tables.md follow from that. How a
// value is stored is written down in docs/tables.md under "How values are stored".
//
// A segment's batch (layout 1) keeps facts once and raw; Gather makes the table's
// form of them:
//
//	columns of the row    one value for each record: times, 16- and 8-byte ids, numbers, text
//	attributes            one list of (key, value as text, kind) for the map and its types
//	resource, scope       run-end encoded structs, one run for each of the request
//	metric                the same for what the points of a metric share
//	distribution, …       lists of at most one struct: what only some metric types have
//
// What records share is never repeated in a segment: a request of 20 MiB may hold
// one attribute of 1 MiB on a resource of 200,000 records. In the table it is
// repeated, which is why Gather is bounded by RowBytes.
//
// Bad data never fails a request: it is adjusted, counted, and does not touch its
// neighbours. Damaged batches are errors that name the column, never a panic and
// never a row with a made-up value.
//
// Invariants held here: LAKE-1 in part (every record and data point is exactly one
// row, named by segment_id and segment_row), LOUD-1 (a column that is damaged, or
// that this version does not know, is an error and not left out).
package otelarrow
