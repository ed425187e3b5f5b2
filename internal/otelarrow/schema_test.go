package otelarrow_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

var signals = []otelarrow.Signal{otelarrow.Logs, otelarrow.Traces, otelarrow.Metrics}

// Field ids are in tables that exist: this golden file only ever gains lines.
func TestTableSchema_field_ids_are_fixed_for_ever(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, sig := range signals {
		fmt.Fprintf(&out, "%s\n", sig.Table())
		seen := map[int]string{}
		for _, f := range otelarrow.TableSchema(sig).Fields() {
			writeField(t, &out, seen, "", f)
		}
	}
	golden(t, "table-schemas.txt", out.String())
}

func writeField(t *testing.T, out *strings.Builder, seen map[int]string, parent string, f arrow.Field) {
	t.Helper()
	path := strings.TrimPrefix(parent+"."+f.Name, ".")
	text, ok := f.Metadata.GetValue("PARQUET:field_id")
	require.True(t, ok, "%s has no field id", path)
	id, err := strconv.Atoi(text)
	require.NoError(t, err)
	require.NotContains(t, seen, id, "id of %s", path)
	seen[id] = path
	required := ""
	if !f.Nullable {
		required = " required"
	}
	fmt.Fprintf(out, "%4d %s %s%s\n", id, path, typeName(f.Type), required)
	for _, c := range children(f.Type) {
		writeField(t, out, seen, path, c)
	}
}

func typeName(dt arrow.DataType) string {
	switch dt.(type) {
	case *arrow.MapType, *arrow.ListType, *arrow.StructType:
		return dt.Name()
	default:
		return dt.String()
	}
}

func children(dt arrow.DataType) []arrow.Field {
	switch dt := dt.(type) {
	case *arrow.MapType:
		return []arrow.Field{dt.KeyField(), dt.ItemField()}
	case *arrow.ListType:
		return []arrow.Field{dt.ElemField()}
	case *arrow.StructType:
		return dt.Fields()
	default:
		return nil
	}
}

func TestTableSchema_requires_only_what_we_make_ourselves(t *testing.T) {
	t.Parallel()
	for _, sig := range signals {
		var required []string
		for _, f := range otelarrow.TableSchema(sig).Fields() {
			if !f.Nullable {
				required = append(required, f.Name)
			}
		}
		require.ElementsMatch(t, []string{"timestamp", "timestamp_ns", "ingested_at"}, required)
	}
}

// A segment is read by its schema: a changed layout needs a new layout number.
func TestWALSchema_is_fixed_for_a_layout(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, sig := range signals {
		fmt.Fprintln(&out, otelarrow.WALSchema(sig))
	}
	golden(t, "wal-schemas.txt", out.String())
}

// Each record-batch message must stand alone (ACK-2): no dictionaries in segments.
func TestWALSchema_has_no_dictionaries(t *testing.T) {
	t.Parallel()
	for _, sig := range signals {
		require.NotContains(t, otelarrow.WALSchema(sig).String(), "dictionary")
	}
}

func TestSignalOf(t *testing.T) {
	t.Parallel()
	for _, sig := range signals {
		got, err := otelarrow.SignalOf(otelarrow.WALSchema(sig))
		require.NoError(t, err)
		require.Equal(t, sig, got)
	}
	md := func(kv map[string]string) *arrow.Schema {
		m := arrow.MetadataFrom(kv)
		return arrow.NewSchema(nil, &m)
	}
	for _, tc := range []struct {
		name   string
		schema *arrow.Schema
		want   error
	}{
		{"no_metadata", arrow.NewSchema(nil, nil), otelarrow.ErrNotOurs},
		{"unknown_signal", md(map[string]string{"siglake.signal": "profiles", "siglake.layout": "1"}), otelarrow.ErrNotOurs},
		{"newer_layout", md(map[string]string{"siglake.signal": "logs", "siglake.layout": "3"}), otelarrow.ErrLayout},
		{"no_layout", md(map[string]string{"siglake.signal": "logs"}), otelarrow.ErrLayout},
	} {
		_, err := otelarrow.SignalOf(tc.schema)
		require.ErrorIs(t, err, tc.want, tc.name)
	}
}

func TestSignal_names(t *testing.T) {
	t.Parallel()
	var names, tables []string
	for _, sig := range signals {
		names, tables = append(names, sig.String()), append(tables, sig.Table())
	}
	require.Equal(t, []string{"logs", "traces", "metrics"}, names)
	require.Equal(t, []string{"events", "spans", "metrics"}, tables)
}
