package otlptest_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/siglakecol/siglakecol/internal/otelarrow/otlptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noPlace are fields of OTLP that no table has a column for.
var noPlace = map[protoreflect.FullName]bool{
	"opentelemetry.proto.common.v1.KeyValue.key_strindex":          true, // of profiles only
	"opentelemetry.proto.common.v1.AnyValue.string_value_strindex": true,
}

// The property tests are worth what the generator reaches: every field that is stored, and the need for every rule.
func TestGen_reaches_every_field_and_every_rule(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]func(*otlptest.Gen) (any, error){
		"logs":    func(g *otlptest.Gen) (any, error) { return g.Logs() },
		"traces":  func(g *otlptest.Gen) (any, error) { return g.Traces() },
		"metrics": func(g *otlptest.Gen) (any, error) { return g.Metrics() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := otlptest.New(1, true)
			seen, counted, rowless := map[protoreflect.FullName]bool{}, otlptest.Adjusted{}, 0
			var trip otlptest.Trip
			for range 100 {
				data, err := request(g)
				require.NoError(t, err)
				trip, err = otlptest.Sent(data)
				require.NoError(t, err)
				otlptest.Reach(trip.Want, seen)
				rowless += trip.Rowless
				for reason, n := range trip.Adjusted {
					counted[reason] += n
				}
			}
			for f := range otlptest.Fields(trip.Want) {
				require.True(t, seen[f] || noPlace[f], "no request has %s", f)
			}
			want := []string{otlptest.DuplicateKey, otlptest.InvalidUTF8, otlptest.TimeClamped}
			if name == "metrics" {
				want = append([]string{otlptest.CountClamped}, want...)
				require.Positive(t, rowless)
			}
			require.Equal(t, want, slices.Sorted(maps.Keys(counted)))
		})
	}
}
