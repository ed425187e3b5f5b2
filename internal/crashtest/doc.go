// Package crashtest holds the sweeps over the whole life of a segment: the real log and the real drain on a
// simulated disk, before a catalog in memory, stopped at every operation. It has tests only. docs/invariants.md
// says what they hold the product to, and how.
package crashtest
