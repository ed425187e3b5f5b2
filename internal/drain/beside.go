package drain

import (
	"context"
	"time"

	"github.com/siglakecol/siglakecol/internal/lake"
)

// beside runs Options.Beside as soon as the lake is open, and returns when it does.
func (d *drain) beside(ctx context.Context) {
	for {
		var l *lake.Lake
		var err error
		switch c := d.tables.(type) {
		case lakeCatalog:
			l = c.l
		case *opener:
			l, err = c.get(ctx) // its trouble is told by who opens it
		default:
			return // a test's catalog is no lake
		}
		if err == nil {
			err = d.expect(l)
		}
		if err == nil {
			d.opt.Beside(ctx, l)
			return
		}
		if !sleep(ctx, time.Second) {
			return
		}
	}
}

// expect tells the lake what was committed from here, so that what runs beside leaves a table alone whose catalog went back.
func (d *drain) expect(l *lake.Lake) error {
	tables, err := committedTo(d.root)
	if err != nil {
		return err
	}
	for _, of := range tables {
		if of.err == nil { // else the drain says so
			l.Expect(of.lanes[0].Tenant(), of.lanes[0].Index(), of.seen)
			for _, seen := range of.formers {
				l.Expect(of.lanes[0].Tenant(), of.lanes[0].Index(), seen)
			}
		}
	}
	return nil
}
