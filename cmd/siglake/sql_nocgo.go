//go:build !cgo

package main

import (
	"context"
	"errors"
)

var errNoSQL = errors.New("sql is not in this build: its engine, DuckDB, needs cgo; use the siglake of the release archives " +
	"or of the packages, or build one with CGO_ENABLED=1 (make build does where a C compiler is installed)")

func runQuery(context.Context, dataset, sqlOptions, string, bool, resultWriter) (usage, error) {
	return usage{}, errNoSQL
}

func namesIn(context.Context, string) []tableRef { return nil }

func ownNames(context.Context) ([]string, error) { return nil, nil }
