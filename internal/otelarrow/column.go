package otelarrow

// kind says how a table column is made from the WAL field that holds its facts.
// It fixes three types at once: the WAL's Arrow type, the table's Arrow type and
// the Iceberg type. The WAL keeps facts once and raw (16-byte ids, enum numbers,
// unsigned times in two's complement, 0 for "not set"); the table shows them.
type kind uint8

const (
	kindLong        kind = iota // int64 -> long; WAL nulls stay null
	kindRawTime                 // int64 -> long, 0 is NULL
	kindMicros                  // int64 ns -> timestamptz, floor
	kindRawMicros               // int64 raw ns -> timestamptz, 0 is NULL, over int64 clamped
	kindClampNanos              // int64 raw ns -> long, 0 is NULL, over int64 clamped
	kindDuration                // two int64 raw ns -> long, end minus start, NULL when either is 0
	kindUint32                  // uint32 -> long
	kindInt                     // int32 -> int; WAL nulls stay null
	kindDouble                  // double -> double; WAL nulls stay null
	kindBool                    // uint8 -> boolean; WAL nulls stay null
	kindText                    // utf8 -> string; WAL nulls stay null
	kindTextOrNull              // utf8 -> string, "" is NULL
	kindTraceID                 // 16 bytes -> lower-case hex, all zero is NULL
	kindSpanID                  // 8 bytes -> lower-case hex, all zero is NULL
	kindSpanKind                // int32 -> OTLP name; unknown numbers as text
	kindStatusCode              // int32 -> OTLP name; unknown numbers as text
	kindTemporality             // int32 -> OTLP name; unknown numbers as text; WAL nulls stay null
	kindValueKind               // uint8 -> name of the value's type, NULL for a string
	kindAttrs                   // list of (key, value, kind) -> map<string,string>
	kindAttrTypes               // the same list -> map<string,string> of what is not a string, or NULL
	kindLongs                   // list<int64> -> list<long>
	kindDoubles                 // list<double> -> list<double>
	kindStructs                 // list of structs -> list of structs (column.fields)
	kindSegmentID               // not in the WAL: Source.SegmentID
	kindSegmentRow              // not in the WAL: Source.FirstRow and the row
)

// column declares one column of a table, or one field of a struct in it.
type column struct {
	id       int    // Iceberg field id; map key, map value and list element are id+1 and id+2
	name     string // column name; also the WAL field's unless from says otherwise
	kind     kind
	from     string   // WAL field
	required bool     // never NULL, as Iceberg enforces it
	fields   []column // of kindStructs
	null     string   // documentation: when it is NULL; "" = never
	source   string   // documentation: the OTLP field and how it is read

	group string // set by inGroup: the WAL group the field is in, "" = the row itself
}

// wal is the name of the WAL field the column is made from.
func (c column) wal() string {
	if c.from != "" {
		return c.from
	}
	return c.name
}

// A group is a part of the row that the WAL does not store row by row.
//
// A request of 20 MiB may hold one resource attribute of 1 MiB and 200,000
// records, or as many points of one metric with a description of that size: what
// records share is therefore written once per run, never once per row.
type group struct {
	name string
	runs bool // run-end encoded struct: shared by rows; else list of at most one struct: absent in most rows
}

// inGroup marks columns as stored in a group of the WAL.
func inGroup(name string, cols ...column) []column {
	for i := range cols {
		cols[i].group = name
	}
	return cols
}

// attributeColumns declares <prefix>attributes, its types and the dropped count.
// They take the ids id to id+6.
func attributeColumns(id int, prefix, of string) []column {
	return []column{
		{
			id: id, name: prefix + "attributes", kind: kindAttrs,
			source: of + ".attributes: strings verbatim, other values as JSON text; an empty map when there are none",
		},
		{
			id: id + 3, name: prefix + "attribute_types", kind: kindAttrTypes, from: prefix + "attributes",
			null: "all values are strings", source: "type of each value that is not a string",
		},
		{
			id: id + 6, name: prefix + "dropped_attributes_count", kind: kindUint32,
			source: of + ".dropped_attributes_count",
		},
	}
}

func concat(parts ...[]column) []column {
	var all []column
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
