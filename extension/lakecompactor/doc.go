// Package lakecompactor is the Collector extension that drains the write-ahead log into Apache Iceberg tables:
// it adapts internal/drain and internal/lake to the Collector's configuration, life cycle, telemetry and
// component status. It shares nothing with the exporter but the directory of the log.
//
// Holds LAKE-1, RET-1 and LOUD-1 through internal/drain; see docs/invariants.md.
package lakecompactor
