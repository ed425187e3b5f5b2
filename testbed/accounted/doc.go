// Package accounted holds the oracle ACCOUNTED over the built collector: rows with unique ids are sent, the collector is
// killed or stopped in the middle, started again, drained, and every acknowledged id must be in the table exactly once,
// every other id at most once, as an independent reader counts them (ACK-1, ACK-2, ONE-1, LAKE-1, BND-1).
package accounted
