// Package otlptest makes random OTLP, says what a table must hold of it, and makes OTLP again of table rows. For tests.
//
// It shares no code with the encoder: Sent* apply the rules of docs/tables.md ("Not as sent") to what was sent, and
// Rebuild* invert "How values are stored" from the rows alone. Where the two differ, something was lost. Both yield the
// messages of go.opentelemetry.io/proto/otlp in one normal form:
//
//	attributes    sorted by key; the order within a kvlist stays
//	groups        those without a record are left out, equal neighbours are one (also of two requests)
//	doubles       all NaN are one NaN; -0 is not 0
//	ids           all zero is none
package otlptest
