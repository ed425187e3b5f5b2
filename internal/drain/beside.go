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
			d.opt.Beside(ctx, l)
			return
		}
		if !sleep(ctx, time.Second) {
			return
		}
	}
}
