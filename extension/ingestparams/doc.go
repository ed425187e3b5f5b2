// Package ingestparams brings the commit mode of a request to the siglake exporter and refuses pipelines
// that would break its answer.
//
// As a server middleware it reads the mode from the query parameter commit, else the header
// X-Siglake-Commit, else the gRPC metadata x-siglake-commit, and puts it into client.Info, so that the
// receiver needs no include_metadata. A mode it does not know, a mode given twice and a choice of index or
// tenant, which this version cannot honour, are refused before the body is decoded.
//
// As a watcher of the effective configuration it refuses to start a Collector in which a siglake exporter
// is reached through a component that answers the client before the exporter has run.
//
// Invariants: ACK-1 (an answer means what its mode says; nothing is silently downgraded).
package ingestparams
