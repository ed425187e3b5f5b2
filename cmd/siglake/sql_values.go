//go:build cgo

package main

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/google/uuid"
)

func numeric(t duckdb.Type) bool {
	switch t {
	case duckdb.TYPE_TINYINT, duckdb.TYPE_SMALLINT, duckdb.TYPE_INTEGER, duckdb.TYPE_BIGINT, duckdb.TYPE_HUGEINT,
		duckdb.TYPE_UTINYINT, duckdb.TYPE_USMALLINT, duckdb.TYPE_UINTEGER, duckdb.TYPE_UBIGINT, duckdb.TYPE_UHUGEINT,
		duckdb.TYPE_FLOAT, duckdb.TYPE_DOUBLE, duckdb.TYPE_DECIMAL, duckdb.TYPE_BIGNUM:
		return true
	default:
		return false
	}
}

// Layouts of times. All are in UTC, and only those that are points in time say so.
const (
	layoutTimestamp   = "2006-01-02T15:04:05.999999999"
	layoutTimestampTZ = "2006-01-02T15:04:05.999999999Z"
	layoutDate        = "2006-01-02"
	layoutTime        = "15:04:05.999999999"
)

// convert turns a value of the driver into one of result.go. ti may be nil.
func convert(v any, ti duckdb.TypeInfo) any {
	if v == nil {
		return nil
	}
	kind := duckdb.TYPE_INVALID
	var details duckdb.TypeDetails
	if ti != nil {
		if ti.Alias() == "JSON" {
			return convertJSON(v)
		}
		kind, details = ti.InternalType(), ti.Details()
	}
	switch v := v.(type) {
	case bool, int64, float64, string:
		return v
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case int:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	case uint64:
		return v
	case float32:
		return number32(v)
	case *big.Int:
		return number(v.String())
	case duckdb.Decimal:
		return decimal(v)
	case time.Time:
		return timeText(v.UTC(), kind)
	case duckdb.Interval:
		return intervalText(v)
	case []byte:
		if id, err := uuid.FromBytes(v); err == nil && kind == duckdb.TYPE_UUID {
			return id.String()
		}
		return `\x` + hex.EncodeToString(v)
	case duckdb.UUID:
		return v.String()
	default:
		return convertNested(v, details)
	}
}

func convertNested(v any, details duckdb.TypeDetails) any {
	switch v := v.(type) {
	case []any:
		var child duckdb.TypeInfo
		switch d := details.(type) {
		case *duckdb.ListDetails:
			child = d.Child
		case *duckdb.ArrayDetails:
			child = d.Child
		}
		out := make(list, len(v))
		for i, e := range v {
			out[i] = convert(e, child)
		}
		return out
	case duckdb.OrderedMap:
		var key, value duckdb.TypeInfo
		if d, ok := details.(*duckdb.MapDetails); ok {
			key, value = d.Key, d.Value
		}
		keys, values := v.Keys(), v.Values()
		out := make(record, len(keys))
		for i := range keys {
			out[i] = pair{convert(keys[i], key), convert(values[i], value)}
		}
		return out
	case map[string]any:
		return convertStruct(v, details)
	case duckdb.Union:
		return record{{v.Tag, convert(v.Value, nil)}}
	default:
		return fmt.Sprint(v)
	}
}

// convertStruct puts the fields in the order of the type, or of their names where the type is not known.
func convertStruct(v map[string]any, details duckdb.TypeDetails) record {
	out := make(record, 0, len(v))
	if d, ok := details.(*duckdb.StructDetails); ok {
		for _, e := range d.Entries {
			out = append(out, pair{e.Name(), convert(v[e.Name()], e.Info())})
		}
		return out
	}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		out = append(out, pair{k, convert(v[k], nil)})
	}
	return out
}

// convertJSON turns a parsed document into a value. The driver has parsed all numbers as float64: those without a
// fraction are shown without one, and integers over 2^53 have lost digits.
func convertJSON(v any) any {
	switch v := v.(type) {
	case float64:
		return number(strconv.FormatFloat(v, 'f', -1, 64))
	case []any:
		out := make(list, len(v))
		for i, e := range v {
			out[i] = convertJSON(e)
		}
		return out
	case map[string]any:
		out := make(record, 0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, pair{k, convertJSON(v[k])})
		}
		return out
	default:
		return v
	}
}

// decimal writes all digits that the type has: 1.10, not 1.1.
func decimal(d duckdb.Decimal) number {
	digits := new(big.Int).Abs(d.Value).String()
	if scale := int(d.Scale); scale > 0 {
		if len(digits) <= scale {
			digits = strings.Repeat("0", scale+1-len(digits)) + digits
		}
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	if d.Value.Sign() < 0 {
		digits = "-" + digits
	}
	return number(digits)
}

// number32 keeps the digits of a 32-bit float: 0.1, not 0.10000000149011612.
func number32(f float32) any {
	if d := float64(f); math.IsNaN(d) || math.IsInf(d, 0) {
		return d
	}
	return number(strconv.FormatFloat(float64(f), 'g', -1, 32))
}

func timeText(t time.Time, kind duckdb.Type) string {
	switch kind {
	case duckdb.TYPE_DATE:
		return t.Format(layoutDate)
	case duckdb.TYPE_TIME, duckdb.TYPE_TIME_TZ:
		return t.Format(layoutTime)
	case duckdb.TYPE_TIMESTAMP, duckdb.TYPE_TIMESTAMP_S, duckdb.TYPE_TIMESTAMP_MS, duckdb.TYPE_TIMESTAMP_NS:
		return t.Format(layoutTimestamp)
	default:
		return t.Format(layoutTimestampTZ)
	}
}

func intervalText(v duckdb.Interval) string {
	var parts []string
	add := func(n int64, unit string) {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, unit))
		}
	}
	add(int64(v.Months), "months")
	add(int64(v.Days), "days")
	if v.Micros != 0 || len(parts) == 0 {
		parts = append(parts, (time.Duration(v.Micros) * time.Microsecond).String())
	}
	return strings.Join(parts, " ")
}
