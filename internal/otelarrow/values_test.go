package otelarrow_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"

	"github.com/siglakecol/siglakecol/internal/otelarrow"
)

// oneLog is a request of one record made by fill.
func oneLog(fill func(plog.LogRecord)) plog.Logs {
	ld := plog.NewLogs()
	fill(ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty())
	return ld
}

func kvlist(v pcommon.Value, pairs ...string) {
	m := v.SetEmptyMap()
	for i := 0; i < len(pairs); i += 2 {
		m.PutStr(pairs[i], pairs[i+1])
	}
}

type valueCase struct {
	name string
	set  func(pcommon.Value)
	text string
	typ  string // "" = a string
}

func valueCases() []valueCase {
	double := func(f float64) func(pcommon.Value) { return func(v pcommon.Value) { v.SetDouble(f) } }
	integer := func(i int64) func(pcommon.Value) { return func(v pcommon.Value) { v.SetInt(i) } }
	str := func(s string) func(pcommon.Value) { return func(v pcommon.Value) { v.SetStr(s) } }
	return []valueCase{
		{"string", str("plain"), "plain", ""},
		{"string_empty", str(""), "", ""},
		{"string_that_looks_like_json", str(`{"a":1}`), `{"a":1}`, ""},
		{"string_with_nul_and_control", str("a\x00b\x1f\x7f\n"), "a\x00b\x1f\x7f\n", ""},
		{"string_any_rune", str("ß漢\U0001F600\u202e\ufffd"), "ß漢\U0001F600\u202e\ufffd", ""},
		{"int", integer(42), "42", "int"},
		{"int_max", integer(math.MaxInt64), "9223372036854775807", "int"},
		{"int_min", integer(math.MinInt64), "-9223372036854775808", "int"},
		{"bool_true", func(v pcommon.Value) { v.SetBool(true) }, "true", "bool"},
		{"bool_false", func(v pcommon.Value) { v.SetBool(false) }, "false", "bool"},
		{"double_whole", double(3), "3.0", "double"},
		{"double_zero", double(0), "0.0", "double"},
		{"double_minus_zero", double(math.Copysign(0, -1)), "-0.0", "double"},
		{"double_fraction", double(0.1), "0.1", "double"},
		{"double_large", double(1e21), "1e+21", "double"},
		{"double_below_large", double(1e20), "100000000000000000000.0", "double"},
		{"double_small", double(1e-7), "1e-07", "double"},
		{"double_denormal", double(5e-324), "5e-324", "double"},
		{"double_max", double(math.MaxFloat64), "1.7976931348623157e+308", "double"},
		{"double_nan", double(math.NaN()), `{"$double":"NaN"}`, "double"},
		{"double_inf", double(math.Inf(1)), `{"$double":"Infinity"}`, "double"},
		{"double_minus_inf", double(math.Inf(-1)), `{"$double":"-Infinity"}`, "double"},
		{"bytes", func(v pcommon.Value) { v.SetEmptyBytes().FromRaw([]byte{0, 0xff, 'a'}) }, `{"$bytes":"AP9h"}`, "bytes"},
		{"bytes_empty", func(v pcommon.Value) { v.SetEmptyBytes() }, `{"$bytes":""}`, "bytes"},
		{"array_empty", func(v pcommon.Value) { v.SetEmptySlice() }, `[]`, "array"},
		{"array_mixed", setMixedArray, `["x",1,1.0,true,null,[],{},{"$bytes":"AQ=="},{"$double":"NaN"}]`, "array"},
		{"kvlist_empty", func(v pcommon.Value) { v.SetEmptyMap() }, `{}`, "kvlist"},
		{"kvlist", func(v pcommon.Value) { kvlist(v, "b", "1", "a", "2") }, `{"b":"1","a":"2"}`, "kvlist"},
		{"kvlist_empty_key", func(v pcommon.Value) { kvlist(v, "", "1") }, `{"":"1"}`, "kvlist"},
		{"kvlist_dollar_key", func(v pcommon.Value) { kvlist(v, "$bytes", "AQ==") }, `{"$kvlist":[["$bytes","AQ=="]]}`, "kvlist"},
		{"kvlist_dollar_key_among_others", func(v pcommon.Value) { kvlist(v, "a", "1", "$x", "2") }, `{"$kvlist":[["a","1"],["$x","2"]]}`, "kvlist"},
		{"kvlist_escapes", func(v pcommon.Value) { kvlist(v, "q\"\\", "\n\r\t\b\x00é</>&") }, `{"q\"\\":"\n\r\t\u0008\u0000é</>&"}`, "kvlist"},
	}
}

func setMixedArray(v pcommon.Value) {
	s := v.SetEmptySlice()
	s.AppendEmpty().SetStr("x")
	s.AppendEmpty().SetInt(1)
	s.AppendEmpty().SetDouble(1)
	s.AppendEmpty().SetBool(true)
	s.AppendEmpty()
	s.AppendEmpty().SetEmptySlice()
	s.AppendEmpty().SetEmptyMap()
	s.AppendEmpty().SetEmptyBytes().FromRaw([]byte{1})
	s.AppendEmpty().SetDouble(math.NaN())
}

func TestEncode_values_as_attribute_and_body(t *testing.T) {
	t.Parallel()
	for _, tc := range valueCases() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rows, b := tableOf(t, oneLog(func(lr plog.LogRecord) {
				tc.set(lr.Attributes().PutEmpty("k"))
				tc.set(lr.Body())
			}))
			var types, bodyType any
			if tc.typ != "" {
				types, bodyType = map[string]string{"k": tc.typ}, tc.typ
			}
			require.Equal(t, row{
				"attributes": map[string]string{"k": tc.text}, "attribute_types": types, "body": tc.text, "body_type": bodyType,
			}, rows[0].Only("attributes", "attribute_types", "body", "body_type"))
			require.Zero(t, b.Adjusted)
		})
	}
}

func TestEncode_an_empty_attribute_is_null_text_and_no_body_is_NULL(t *testing.T) {
	t.Parallel()
	rows, _ := tableOf(t, oneLog(func(lr plog.LogRecord) {
		lr.Attributes().PutEmpty("nothing")
		lr.Attributes().PutStr("empty", "")
	}))
	require.Equal(t, row{
		"attributes":      map[string]string{"nothing": "null", "empty": ""},
		"attribute_types": map[string]string{"nothing": "empty"},
		"body":            nil, "body_type": "empty",
	}, rows[0].Only("attributes", "attribute_types", "body", "body_type"))
}

func TestEncode_attribute_types_name_only_what_is_no_string(t *testing.T) {
	t.Parallel()
	ld := plog.NewLogs()
	lrs := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	lrs.AppendEmpty()
	lrs.AppendEmpty().Attributes().PutStr("s", "x")
	mixed := lrs.AppendEmpty().Attributes()
	mixed.PutInt("i", 1)
	mixed.PutStr("s", "x")
	mixed.PutBool("b", true)
	rows, _ := tableOf(t, ld)
	require.Equal(t, map[string]string{}, rows[0]["attributes"])
	require.Nil(t, rows[0]["attribute_types"])
	require.Nil(t, rows[1]["attribute_types"])
	require.Equal(t, map[string]string{"i": "int", "b": "bool"}, rows[2]["attribute_types"])
}

// withDuplicates decodes attributes in which keys come twice: pdata's own methods cannot make them.
func withDuplicates(t *testing.T, pairs ...string) plog.Logs {
	t.Helper()
	var kvs []string
	for i := 0; i < len(pairs); i += 2 {
		kvs = append(kvs, fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, pairs[i], pairs[i+1]))
	}
	list := strings.Join(kvs, ",")
	req := plogotlp.NewExportRequest()
	require.NoError(t, req.UnmarshalJSON([]byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"attributes":[`+list+
		`],"body":{"kvlistValue":{"values":[`+list+`]}}}]}]}]}`)))
	return req.Logs()
}

func TestEncode_of_duplicate_keys_the_first_wins(t *testing.T) {
	t.Parallel()
	rows, b := tableOf(t, withDuplicates(t, "a", "1", "b", "2", "a", "3", "a", "4"))
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, rows[0]["attributes"])
	require.Equal(t, `{"$kvlist":[["a","1"],["b","2"],["a","3"],["a","4"]]}`, rows[0]["body"], "a kvlist value keeps all")
	require.Equal(t, otelarrow.Adjusted{DuplicateKeys: 2}, b.Adjusted)
}

func TestEncode_duplicates_among_many_keys(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 8, 9, 31, 32, 33, 64, 1000} {
		var pairs []string
		want := map[string]string{}
		for i := range n {
			k := fmt.Sprintf("key.%d", i%(n-1)) // the last repeats the first
			pairs = append(pairs, k, strconv.Itoa(i))
			if _, have := want[k]; !have {
				want[k] = strconv.Itoa(i)
			}
		}
		rows, b := tableOf(t, withDuplicates(t, pairs...))
		require.Equal(t, want, rows[0]["attributes"], "%d keys", n)
		require.Equal(t, otelarrow.Adjusted{DuplicateKeys: 1}, b.Adjusted)
		require.True(t, strings.HasPrefix(rows[0]["body"].(string), `{"$kvlist":[[`), "%d keys", n)
	}
}

func TestEncode_bad_UTF8_is_replaced_per_run_and_neighbours_stay(t *testing.T) {
	t.Parallel()
	ld := plog.NewLogs()
	lrs := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	good := lrs.AppendEmpty()
	good.Body().SetStr("gut ä")
	good.Attributes().PutStr("k", "é")
	bad := lrs.AppendEmpty()
	bad.Body().SetStr("a\xff\xfe\xfdb\xc3")
	bad.SetSeverityText("\xffx\xff")
	bad.Attributes().PutStr("k\xff", "v\xff")
	bad.Attributes().PutEmpty("nested").SetEmptySlice().AppendEmpty().SetStr("\"\xff\"")
	rows, b := tableOf(t, ld)
	require.Equal(t, "gut ä", rows[0]["body"])
	require.Equal(t, map[string]string{"k": "é"}, rows[0]["attributes"])
	require.Equal(t, "a\uFFFDb\uFFFD", rows[1]["body"])
	require.Equal(t, "\uFFFDx\uFFFD", rows[1]["severity_text"])
	require.Equal(t, map[string]string{"k\uFFFD": "v\uFFFD", "nested": "[\"\\\"\uFFFD\\\"\"]"}, rows[1]["attributes"])
	require.Equal(t, otelarrow.Adjusted{InvalidUTF8: 5}, b.Adjusted)
}

// The column's bytes are valid as a whole here, yet neither string is.
func TestEncode_halves_of_a_rune_in_neighbouring_strings(t *testing.T) {
	t.Parallel()
	ld := plog.NewLogs()
	lrs := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	lrs.AppendEmpty().Body().SetStr("x\xc3")
	lrs.AppendEmpty().Body().SetStr("\xa4y")
	rows, b := tableOf(t, ld)
	require.Equal(t, "x\uFFFD", rows[0]["body"])
	require.Equal(t, "\uFFFDy", rows[1]["body"])
	require.Equal(t, otelarrow.Adjusted{InvalidUTF8: 2}, b.Adjusted)
}

// A Parquet map with a key twice is refused by some readers.
func TestEncode_keys_that_bad_UTF8_makes_equal(t *testing.T) {
	t.Parallel()
	rows, b := tableOf(t, oneLog(func(lr plog.LogRecord) {
		lr.Attributes().PutStr("k\xff", "first")
		lr.Attributes().PutStr("k\xfe", "second")
		m := lr.Body().SetEmptyMap()
		m.PutStr("k\xff", "first")
		m.PutStr("k\xfe", "second")
	}))
	require.Equal(t, map[string]string{"k\uFFFD": "first"}, rows[0]["attributes"])
	require.Equal(t, "{\"$kvlist\":[[\"k\uFFFD\",\"first\"],[\"k\uFFFD\",\"second\"]]}", rows[0]["body"])
	require.Equal(t, otelarrow.Adjusted{DuplicateKeys: 1, InvalidUTF8: 4}, b.Adjusted)
}

func TestEncode_deep_values_are_stored(t *testing.T) {
	t.Parallel()
	const depth = 50_000
	rows, _ := tableOf(t, oneLog(func(lr plog.LogRecord) {
		v := lr.Body()
		for range depth {
			v = v.SetEmptySlice().AppendEmpty()
		}
		v.SetInt(7)
	}))
	require.Equal(t, strings.Repeat("[", depth)+"7"+strings.Repeat("]", depth), rows[0]["body"])
}
