// Package otelarrow turns OTLP requests into Arrow record batches for the
// write-ahead log, and those batches into rows of the Iceberg tables.
package otelarrow
