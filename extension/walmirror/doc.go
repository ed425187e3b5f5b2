// Package walmirror is the extension that copies the sealed segments of the write-ahead log to an object store, so that
// losing the volume does not lose what is sealed and not yet in a table. An exporter names it (its key mirror) and gives
// it its root; the work is internal/mirror's. Without a bucket, or with an empty prefix, it runs idle and says once what
// is exposed.
//
// Invariants: PIN-1, MIR-1 (docs/invariants.md).
package walmirror
