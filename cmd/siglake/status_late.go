package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/siglakecol/siglakecol/internal/lake"
)

// isLate tells that something has waited so long for its table that somebody should know.
func (l *laneStatus) isLate() bool {
	return l.OldestSeconds != nil && time.Duration(*l.OldestSeconds)*time.Second > lateAge
}

// adviseLate tells why segments wait that nothing else explains: a table of which a manifest is gone or damaged takes new rows, and
// whether it has those of an older segment nobody can look up. Manifests are read for late lanes only.
// A table that is not listed is told by adviseTables.
func (a *app) adviseLate(ctx context.Context, l *lake.Lake, listed []tableStatus, lanes []laneStatus) (out []advice) {
	for i := range lanes {
		of := &lanes[i]
		waiting := of.Sealed + of.Processing + of.Orphans
		namespace := lake.NamespaceOf(of.Tenant)
		is := func(t tableStatus) bool { return t.Namespace == namespace && t.Name == of.Index }
		if waiting == 0 || !of.isLate() || !slices.ContainsFunc(listed, is) {
			continue
		}
		if _, err := l.Plan(ctx, namespace, of.Index); err != nil {
			out = append(out, advice{What: fmt.Sprintf("%s of %s %s until the table can be read: %v",
				plural(waiting, "segment", "segments"), of.key(), agree(waiting, "waits", "wait"), err)})
		}
	}
	return out
}
