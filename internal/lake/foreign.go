package lake

import (
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// unreadable says what of a table's definition a reader that goes by Plan would read wrongly; "" = nothing. Columns are
// found by field id, but fields inside of structs by name: one that was renamed would read as NULL in older files, and
// one whose name was used before as what that was.
func unreadable(meta table.Metadata) string {
	if v := meta.Version(); v > 2 {
		return fmt.Sprintf("format version %d", v)
	}
	now := nestedNames(meta.CurrentSchema())
	for _, sc := range meta.Schemas() {
		for key, id := range nestedNames(sc) {
			if have, ok := now[key]; ok && have != id {
				return fmt.Sprintf("a field inside of a struct, %s, whose name another field had before", key.name)
			}
			for other, same := range now {
				if same == id && other.name != key.name {
					return fmt.Sprintf("a field inside of a struct that was renamed from %s to %s", key.name, other.name)
				}
			}
		}
	}
	return ""
}

// nestedName is a field of a struct, by the id of what holds the struct.
type nestedName struct {
	parent int
	name   string
}

// nestedNames are the ids of all fields that structs inside of columns have.
func nestedNames(sc *iceberg.Schema) map[nestedName]int {
	out := map[nestedName]int{}
	var visit func(parent int, t iceberg.Type)
	visit = func(parent int, t iceberg.Type) {
		nested, ok := t.(iceberg.NestedType)
		if !ok {
			return
		}
		_, isStruct := t.(*iceberg.StructType)
		for _, f := range nested.Fields() {
			if isStruct {
				out[nestedName{parent, f.Name}] = f.ID
			}
			visit(f.ID, f.Type)
		}
	}
	for _, f := range sc.Fields() {
		visit(f.ID, f.Type)
	}
	return out
}
