package otelarrow

// ColumnDoc is what docs/tables.md says of a column.
type ColumnDoc struct {
	NullWhen string // "never" where it is never NULL
	Source   string // the OTLP field it comes from
}

// Describe returns what there is to say of the columns of a signal's table, by name.
func Describe(s Signal) map[string]ColumnDoc {
	out := make(map[string]ColumnDoc, len(layouts[s].columns))
	for _, c := range layouts[s].columns {
		null := c.null
		if null == "" {
			null = "never"
		}
		out[c.name] = ColumnDoc{NullWhen: null, Source: c.source}
	}
	return out
}
