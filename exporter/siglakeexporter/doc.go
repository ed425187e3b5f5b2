// Package siglakeexporter appends OTLP logs, traces and metrics to the write-ahead log and answers when the
// rows are as durable as the commit mode of the request asks.
//
// It is thin: a request is encoded in its own goroutine (otelarrow, frame), appended (wal), and what can go
// wrong is turned into an answer in one place (errors.go). It has no queue, no retry and no time limit: the
// log is the queue, the client retries, and an fsync takes what it takes.
//
// The exporters of the three signals share one open log per root, counted in the closure of NewFactory.
//
// Invariants: ACK-1 (success is sent only when the mode's promise holds; a mode is never downgraded), ACK-2.
package siglakeexporter
