package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/siglakecol/siglakecol/internal/drain"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// openLakeToRepair opens the catalog: read-only, with apply for writing. One that is missing is made with apply, if the log has
// committed to a table, and there is a place for one; without apply an empty one stands in for it that nobody sees. done closes it.
func (a *app) openLakeToRepair(ctx context.Context, root *segment.Root, apply bool) (l *lake.Lake, missing bool, done func() error, err error) {
	l, err = a.openLake(ctx, true)
	switch missing = errors.Is(err, lake.ErrNoCatalog); {
	case errors.Is(err, lake.ErrNoHome):
		return nil, missing, nil, err
	case missing:
		if had, herr := drain.Committing(root); herr != nil || !had {
			return nil, missing, nil, errors.Join(err, herr)
		}
		if !apply {
			l, done, err = a.openEmptyLake(ctx)
			return l, missing, done, err
		}
	case err != nil:
		return nil, false, nil, err
	case !apply:
		return l, false, l.Close, nil
	default:
		if err := l.Close(); err != nil {
			return nil, false, nil, err
		}
	}
	if l, err = a.openLake(ctx, false); err != nil {
		return nil, missing, nil, err
	}
	return l, missing, l.Close, nil
}

// openEmptyLake opens the warehouse with an empty catalog, read-only.
func (a *app) openEmptyLake(ctx context.Context) (l *lake.Lake, done func() error, err error) {
	dir, remove, err := vfs.PrivateDir("siglake-catalog-repair-")
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	opt, err := a.lakeOptions(true)
	if err != nil {
		return nil, nil, err
	}
	opt.Catalog = "sqlite://" + filepath.Join(dir, "catalog.db")
	empty := opt
	empty.ReadOnly, empty.Warehouse = false, filepath.Join(dir, "warehouse")
	if l, err = lake.Open(ctx, empty); err == nil {
		err = l.Close()
	}
	if err == nil {
		l, err = lake.Open(ctx, opt)
	}
	if err != nil {
		return nil, nil, err
	}
	return l, func() error { return errors.Join(l.Close(), remove()) }, nil
}
