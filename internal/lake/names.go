package lake

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
)

// Namespaces names the namespaces of the catalog. No table is read.
func (l *Lake) Namespaces(ctx context.Context) ([]string, error) {
	spaces, err := l.cat.ListNamespaces(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	out := make([]string, len(spaces))
	for i, ns := range spaces {
		out[i] = strings.Join(ns, ".")
	}
	return out, nil
}

// TableNames names the tables of a namespace; none where there is no such namespace. No table is read.
func (l *Lake) TableNames(ctx context.Context, namespace string) ([]string, error) {
	ids, err := l.cat.tableNames(ctx, table.Identifier{namespace})
	if errors.Is(err, catalog.ErrNoSuchNamespace) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list tables of %s: %w", namespace, err)
	}
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id[len(id)-1]
	}
	return out, nil
}

// Describe is Plan without the files: only the table's metadata is read.
//
//	errors  ErrNoTable
func (l *Lake) Describe(ctx context.Context, namespace, name string) (Plan, error) {
	t, err := l.open(ctx, table.Identifier{namespace, name})
	if err != nil {
		return Plan{}, err
	}
	return l.describe(t)
}

func (l *Lake) describe(t *table.Table) (Plan, error) {
	info, err := l.info(t)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Table: info, Schema: planColumns(t.Schema()), Unreadable: unreadable(t.Metadata()), meta: t.Metadata()}
	if snap := t.CurrentSnapshot(); snap != nil {
		plan.SnapshotID = snap.SnapshotID
	}
	return plan, nil
}
