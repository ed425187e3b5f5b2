package main

import (
	"errors"
	"fmt"

	"github.com/siglakecol/siglakecol/internal/lake"
)

// adviseTables tells of a catalog that is lost, and of tables that cannot be read and so are not committed to.
func (a *app) adviseTables(err error, lanes []laneStatus) (out []advice) {
	if errors.Is(err, lake.ErrNoCatalog) && a.lostCatalog() {
		return []advice{{
			What:    "there is no catalog, and rows were committed to one from this log; a collector that starts now makes an empty one",
			Command: a.next("catalog-repair"),
		}}
	}
	for _, t := range lake.Unreadable(err) {
		if errors.Is(t, lake.ErrMetadataGone) {
			continue // adviseRepair
		}
		waiting := 0
		for _, l := range lanes {
			if lake.NamespaceOf(l.Tenant) == t.Namespace && l.Index == t.Name {
				waiting += l.Sealed + l.Processing + l.Orphans
			}
		}
		out = append(out, advice{What: fmt.Sprintf("table %s.%s cannot be read, so nothing is committed to it and %s in the log: %v",
			t.Namespace, t.Name, plural(waiting, "segment waits", "segments wait"), t)})
	}
	return out
}
