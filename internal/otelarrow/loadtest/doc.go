// Package loadtest makes requests like those of a load test, of all three signals: the rows that benchmarks of several
// packages measure with, so that their figures can be compared. Only tests import it.
//
// The same generator and arguments give the same request.
package loadtest
