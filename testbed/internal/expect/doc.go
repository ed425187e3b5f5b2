// Package expect says what a table must hold for an OTLP request.
//
// It walks the official protobuf messages by reflection. Every populated field must be asked for by a rule; one that no
// rule asked for is reported as never stored. Each rule yields a cell: the value wanted, and a check of the value read
// by the independent reader. The rules are written from docs/tables.md and share no code with the product: attribute
// and body text is parsed back into an AnyValue and compared with the one that was sent.
package expect
