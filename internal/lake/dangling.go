package lake

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Dangling are the tables of the catalog, as tenant and index, whose metadata file is gone, of those that ask wants. A Past of one
// without anything seen finds its later states. A REST catalog
// does not tell which file it has lost: none.
//
//	errors  of the catalog; what else is wrong with a table is its own
func (l *Lake) Dangling(ctx context.Context, ask func(tenant, index string) bool) (out [][2]string, err error) {
	if l.db == nil {
		return nil, nil
	}
	spaces, err := l.cat.ListNamespaces(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	for _, ns := range spaces {
		tenant := tenantOf(ns[0])
		if len(ns) != 1 || NamespaceOf(tenant) != ns[0] {
			continue
		}
		ids, err := l.cat.tableNames(ctx, ns)
		if err != nil {
			return nil, fmt.Errorf("list tables of %s: %w", strings.Join(ns, "."), err)
		}
		for _, id := range ids {
			index := id[len(id)-1]
			if checkIdentifier(tenant, index) != nil || !ask(tenant, index) {
				continue
			}
			if _, err := l.open(ctx, id); errors.Is(err, ErrMetadataGone) {
				out = append(out, [2]string{tenant, index})
			}
		}
	}
	return out, nil
}
