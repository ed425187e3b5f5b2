// Package walmirror will copy sealed segments of the write-ahead log to object storage. In this version it
// only stands for that choice in a configuration: without a bucket it runs idle and says once what is
// exposed; with one the Collector does not start, because no copy would be made.
//
// Invariants: MIR-1 is not held by this version, and nothing here pretends that it is.
package walmirror
