// Package cases holds cases of docs/cases.md that need the built collector: each test bears the id of its case.
package cases
