package expect

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryFieldCounts changes each populated field of a full request, one at a time: the rules must then say that the
// rows of the first request are wrong. A rule that reads a field and drops it cannot pass.
func TestEveryFieldCounts(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"logs", "traces", "metrics"} {
		for pick := range 8 {
			m, err := Full(signal, pick)
			require.NoError(t, err)
			rows, unseen := Rows(m)
			require.Empty(t, unseen, "%s %d", signal, pick)
			if len(rows) == 0 {
				continue // a metric of no type
			}
			wanted := make([]map[string]any, len(rows))
			for i, r := range rows {
				wanted[i] = r.Wanted()
				require.Empty(t, r.Compare(Window{0, math.MaxInt64}, wanted[i]), "%s %d", signal, pick)
			}
			changed := 0
			each(m.ProtoReflect(), func(parent protoreflect.Message, f protoreflect.FieldDescriptor) {
				undo := mutate(parent, f)
				after, _ := Rows(m)
				require.True(t, notices(after, wanted), "%s %d: a change of %s goes unnoticed", signal, pick, f.FullName())
				undo()
				changed++
			})
			require.Greater(t, changed, 10)
		}
	}
}

func notices(rows []Row, got []map[string]any) bool {
	if len(rows) != len(got) {
		return true
	}
	for i, r := range rows {
		if len(r.Compare(Window{0, math.MaxInt64}, got[i])) > 0 {
			return true
		}
	}
	return false
}

// each visits every populated scalar field, also those within lists.
func each(m protoreflect.Message, visit func(protoreflect.Message, protoreflect.FieldDescriptor)) {
	var fields []protoreflect.FieldDescriptor
	m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, f)
		return true
	})
	for _, f := range fields {
		switch v := m.Get(f); {
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				each(v.List().Get(i).Message(), visit)
			}
		case f.Message() != nil:
			each(v.Message(), visit)
		default:
			visit(m, f)
		}
	}
}

func mutate(m protoreflect.Message, f protoreflect.FieldDescriptor) (undo func()) {
	if f.IsList() {
		l := m.Mutable(f).List()
		old := l.Get(0)
		l.Set(0, sample(f, int(f.Number())+2))
		return func() { l.Set(0, old) }
	}
	old := m.Get(f)
	n := int(f.Number()) + 2
	if f.Kind() == protoreflect.BoolKind || f.Kind() == protoreflect.EnumKind {
		n = int(f.Number()) + 1
		if f.Name() == "is_monotonic" {
			n = 0
		}
	}
	m.Set(f, sample(f, n))
	return func() { m.Set(f, old) }
}

func TestUnstoredFieldsAreNamed(t *testing.T) {
	t.Parallel()
	m := &collogs.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{ScopeLogs: []*logspb.ScopeLogs{{LogRecords: []*logspb.LogRecord{{
		Attributes: []*commonpb.KeyValue{{Key: "k", KeyStrindex: 3, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValueStrindex{StringValueStrindex: 1}}}},
	}}}}}}}
	m.ResourceLogs[0].ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8, 0x3f, 1})
	_, unseen := Rows(m)
	require.Len(t, unseen, 3)
	require.Contains(t, fmt.Sprint(unseen), "KeyValue.key_strindex never seen stored")
	require.Contains(t, fmt.Sprint(unseen), "AnyValue.string_value_strindex never seen stored")
	require.Contains(t, fmt.Sprint(unseen), "unknown fields in opentelemetry.proto.logs.v1.ResourceLogs")
}

func str(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}

func list2(kvs ...*commonpb.KeyValue) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: kvs}}}
}

func TestTextIsRebuiltIntoTheValue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		want      *commonpb.AnyValue
		text, typ string
		problem   string
	}{
		{str("a"), "a", "", ""},
		{str("\xff\xfea\xff"), "\uFFFDa\uFFFD", "", ""},
		{str("1"), "1", "int", "want string, got int"},
		{&commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: math.MinInt64}}, "-9223372036854775808", "int", ""},
		{&commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: 9007199254740993}}, "9007199254740992", "int", "got"},
		{&commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: 1}}, "1.0", "double", ""},
		{&commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: 1}}, "1", "double", "is of type int"},
		{&commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: math.Copysign(0, -1)}}, "-0.0", "double", ""},
		{&commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: math.Copysign(0, -1)}}, "0.0", "double", "got"},
		{&commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: math.NaN()}}, `{"$double":"NaN"}`, "double", ""},
		{&commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: []byte{0, 255}}}, `{"$bytes":"AP8="}`, "bytes", ""},
		{&commonpb.AnyValue{}, "null", "empty", ""},
		{list2(&commonpb.KeyValue{Key: "b", Value: str("x")}, &commonpb.KeyValue{Key: "a"}), `{"a":null,"b":"x"}`, "kvlist", ""},
		{list2(&commonpb.KeyValue{Key: "a", Value: str("x")}, &commonpb.KeyValue{Key: "a"}), `{"$kvlist":[["a","x"],["a",null]]}`, "kvlist", ""},
		{list2(&commonpb.KeyValue{Key: "$a", Value: str("x")}), `{"$kvlist":[["$a","x"]]}`, "kvlist", ""},
		{list2(&commonpb.KeyValue{Key: "$a", Value: str("x")}), `{"$a":"x"}`, "kvlist", "starts with '$'"},
		{list2(&commonpb.KeyValue{Key: "a", Value: str("x")}), `{"$kvlist":[["a","x"]]}`, "kvlist", "plain object"},
		{list2(), `{}`, "kvlist", ""},
		{str(""), "null", "empty", "want string, got empty"},
	} {
		got := valueDiffers(tc.want, tc.text, tc.typ)
		if tc.problem == "" {
			require.Empty(t, got, tc.text)
			require.Empty(t, valueDiffers(tc.want, render(tc.want), kind(tc.want)), "own rendering of %s", tc.text)
			continue
		}
		require.Contains(t, got, tc.problem, tc.text)
	}
}

func TestColumnsWithoutRulesAndRulesWithoutColumnsAreNamed(t *testing.T) {
	t.Parallel()
	d := Row{"a": exactly("1")}.Compare(Window{}, map[string]any{"b": nil})
	require.Equal(t, []Diff{{"a", "the table has no such column"}, {"b", "no rule says what this column holds"}}, d)
}

func TestDecodeCleansBadText(t *testing.T) {
	t.Parallel()
	m := &collogs.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{ScopeLogs: []*logspb.ScopeLogs{{LogRecords: []*logspb.LogRecord{{SeverityText: "ab"}}}}}}}
	wire, err := proto.Marshal(m)
	require.NoError(t, err)
	for i := range wire {
		if wire[i] == 'a' {
			wire[i] = 0xff
		}
	}
	d, err := Decode("logs", wire, false)
	require.NoError(t, err)
	require.NoError(t, d.Rejected)
	require.Equal(t, 1, d.Records)
	back, err := Message("logs", d.Proto)
	require.NoError(t, err)
	require.Equal(t, "\uFFFDb", back.(*collogs.ExportLogsServiceRequest).ResourceLogs[0].ScopeLogs[0].LogRecords[0].SeverityText)
	d, err = Decode("logs", []byte("{"), true)
	require.NoError(t, err)
	require.Error(t, d.Rejected)
}
