// Package objstore puts, gets, stats, lists and deletes whole objects in s3://, gs://, azblob:// and file:// stores. It is the
// one package of this repository that knows a cloud SDK; internal/lake's files come through OpenBucket.
//
// Put is create-only: an object that is there is never replaced. An answer that was lost leaves the outcome unknown;
// the caller asks Stat and Holds, and decides. Each store promises that an object is there whole or not at all:
//
//	s3       one PUT with If-None-Match: * and a CRC-32; to a store that knows none, Content-MD5 and a signed body
//	gs       one insert with ifGenerationMatch=0
//	azblob   one upload with If-None-Match: *
//	file     a temporary file, synced, linked to its name, the directory synced; through internal/vfs
//
// Secrets are in no error and no log line of this package: URLs are cut to scheme, bucket and path.
package objstore
