package lake

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// begin starts a transaction pinned to the loaded state, whose first step adds the columns that the table lacks.
func (t *Table) begin(st state) (*table.Transaction, target, error) {
	meta := st.tbl.Metadata()
	fits, err := fit(t.Name(), meta, t.signal, t.lake.promote)
	if err != nil {
		return nil, target{}, err
	}
	if err := checkClock(t.Name(), meta); err != nil {
		return nil, target{}, err
	}
	base := table.New(st.tbl.Identifier(), meta, st.tbl.MetadataLocation(), st.tbl.FS, mergingCatalog{t.lake.cat})
	if fits.grown {
		if base, err = t.lake.evolve(st.tbl, fits.fields); err != nil {
			return nil, target{}, fmt.Errorf("add columns: %w", err)
		}
	}
	tg := target{
		schema: base.Schema(), spec: fits.spec, sortOrder: fits.sortOrder, props: base.Properties(), version: meta.Version(),
	}
	if tg.columns, err = columnsOf(t.signal, tg.schema, fits.promoted); err != nil {
		return nil, tg, err
	}
	for _, c := range fits.promoted {
		tg.promoted = append(tg.promoted, c.column)
	}
	if tg.remember, err = encodePromoted(meta, fits.promoted); err != nil {
		return nil, tg, err
	}
	if tg.location, err = base.LocationProvider(); err != nil {
		return nil, tg, fmt.Errorf("find where data goes: %w", err)
	}
	tx, err := base.NewTransactionOnBranchWithError(table.MainBranch)
	if err != nil {
		return nil, tg, fmt.Errorf("begin a transaction: %w", err)
	}
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return nil, tg, fmt.Errorf("pin the transaction: %w", err)
	}
	return tx, tg, nil
}

// evolve returns the table as it will be with these columns (see fitting). What is committed to it carries the addition along,
// and a requirement that the columns are still those it was made from.
//
// iceberg-go's UpdateSchema would do the same but for the field ids, which it always makes up. Ours are fixed for ever.
func (l *Lake) evolve(tbl *table.Table, fields []iceberg.NestedField) (*table.Table, error) {
	meta := tbl.Metadata()
	sc := iceberg.NewSchemaWithIdentifiers(0, meta.CurrentSchema().IdentifierFieldIDs, fields...)
	b, err := table.MetadataBuilderFromBase(meta, tbl.MetadataLocation())
	if err != nil {
		return nil, err
	}
	if err := b.AddSchema(sc); err != nil {
		return nil, err
	}
	if err := b.SetCurrentSchemaID(-1); err != nil {
		return nil, err
	}
	evolved, err := b.Build()
	if err != nil {
		return nil, err
	}
	cat := evolvingCatalog{
		iceCatalog: mergingCatalog{l.cat},
		requires: []table.Requirement{
			table.AssertCurrentSchemaID(meta.CurrentSchema().ID), table.AssertLastAssignedFieldID(meta.LastColumnID()),
		},
		first: []table.Update{table.NewAddSchemaUpdate(sc), table.NewSetCurrentSchemaUpdate(-1)},
	}
	fs := func(context.Context) (iceio.IO, error) { return l.io, nil }
	return table.New(tbl.Identifier(), evolved, tbl.MetadataLocation(), fs, cat), nil
}

// evolvingCatalog puts updates in front of those of each commit.
type evolvingCatalog struct {
	iceCatalog
	requires []table.Requirement
	first    []table.Update
}

func (c evolvingCatalog) CommitTable(
	ctx context.Context, id table.Identifier, r []table.Requirement, u []table.Update,
) (table.Metadata, string, error) {
	return c.iceCatalog.CommitTable(ctx, id, slices.Concat(c.requires, r), slices.Concat(c.first, u))
}
