package otelarrow

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// docs/tables.md is made from the declarations; this holds it to them.
func TestDocs_column_tables_are_those_of_the_code(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "tables.md")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(b)
	for sig, l := range layouts {
		start := "<!-- columns: " + Signal(sig).Table() + " -->\n"
		before, rest, ok := strings.Cut(text, start)
		require.True(t, ok, "docs/tables.md has no %s", start)
		_, after, ok := strings.Cut(rest, "<!-- end -->\n")
		require.True(t, ok)
		text = before + start + columnTable(l.columns) + "<!-- end -->\n" + after
	}
	if flag.Lookup("update").Value.String() == "true" {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return
	}
	require.Equal(t, text, string(b), "run go test ./internal/otelarrow -run Docs -update")
}

func TestDocs_give_queries_for_each_table(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "tables.md"))
	require.NoError(t, err)
	for _, section := range strings.Split(string(b), "\n## ")[2:] {
		queries := strings.Count(section, "```sql\n--")
		if strings.Contains(section, "<!-- columns: ") {
			require.GreaterOrEqual(t, queries, 5, strings.SplitN(section, "\n", 2)[0])
		}
	}
	require.Equal(t, 5, strings.Count(string(b), "CREATE OR REPLACE TEMP VIEW"), "a view for each metric type")
}

func columnTable(columns []column) string {
	var out strings.Builder
	out.WriteString("| id | column | Arrow type | Iceberg type | NULL when | from OTLP |\n|--:|---|---|---|---|---|\n")
	for _, c := range columns {
		writeColumn(&out, "", c)
	}
	return out.String()
}

func writeColumn(out *strings.Builder, parent string, c column) {
	null := c.null
	switch {
	case c.required:
		null = "never (required)"
	case null == "":
		null = "never"
	}
	ids := strconv.Itoa(c.id)
	switch c.kind {
	case kindAttrs, kindAttrTypes:
		ids += fmt.Sprintf(" (%d, %d)", c.id+1, c.id+2)
	case kindLongs, kindDoubles, kindStructs:
		ids += fmt.Sprintf(" (%d)", c.id+1)
	}
	arrowType, icebergType := typeNames(c.tableType())
	fmt.Fprintf(out, "| %s | `%s%s` | %s | %s | %s | %s |\n", ids, parent, c.name, arrowType, icebergType, null, c.source)
	for _, f := range c.fields {
		writeColumn(out, c.name+".", f)
	}
}

// typeNames spells a table type as Arrow and as Iceberg do.
func typeNames(dt arrow.DataType) (arrowType, icebergType string) {
	switch dt := dt.(type) {
	case *arrow.MapType:
		ka, ki := typeNames(dt.KeyType())
		va, vi := typeNames(dt.ItemType())
		return "map&lt;" + ka + ", " + va + "&gt;", "map&lt;" + ki + ", " + vi + "&gt;"
	case *arrow.ListType:
		a, i := typeNames(dt.Elem())
		return "list&lt;" + a + "&gt;", "list&lt;" + i + "&gt;"
	case *arrow.StructType:
		return "struct", "struct"
	default:
		return dt.String(), map[string]string{
			"utf8": "string", "bool": "boolean", "int32": "int", "int64": "long", "float64": "double", "timestamp[us, tz=UTC]": "timestamptz",
		}[dt.String()]
	}
}
