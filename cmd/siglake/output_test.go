package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHuman(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 5 << 30: "5.0 GiB", math.MaxInt64: "8192.0 PiB"} {
		require.Equal(t, want, humanBytes(n))
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		require.Equal(t, want, humanCount(n))
	}
	for d, want := range map[time.Duration]string{-time.Hour: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 7322 * time.Second: "2h2m", 50 * time.Hour: "2d2h"} {
		require.Equal(t, want, humanAge(d))
	}
}

// A log body is somebody else's text: it must not move the terminal's cursor or its colours.
func TestOneLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, `a\nb\tc\u001b[31m\u0000\u202edone é 漢 ✓`, oneLine("a\nb\tc\x1b[31m\x00\u202edone é 漢 ✓"))
}

func sample() ([]column, [][]any) {
	cols := []column{{"n", true}, {"body", false}, {"attributes", false}}
	rows := [][]any{
		{int64(1), "plain", record{{"k", "v"}, {"n", "7"}}},
		{uint64(math.MaxUint64), "two\nlines, \"quoted\"", list{nil, 1.5, math.NaN(), number("1.10"), true}},
		{nil, nil, record{}},
	}
	return cols, rows
}

func render(t *testing.T, format string, maxWidth int) string {
	t.Helper()
	var b bytes.Buffer
	w := newResultWriter(format, false, &b, maxWidth)
	cols, rows := sample()
	require.NoError(t, w.begin(cols))
	for _, r := range rows {
		require.NoError(t, w.row(r))
	}
	require.NoError(t, w.end())
	return b.String()
}

func TestResult(t *testing.T) {
	t.Parallel()
	require.Equal(t, strings.TrimPrefix(`
                   n  body                  attributes
                   1  plain                 {k=v, n=7}
18446744073709551615  two\nlines, "quoted"  [NULL, 1.5, NaN, 1.10, true]
                NULL  NULL                  {}
(3 rows)
`, "\n"), render(t, "table", 0))
	require.Equal(t, strings.TrimPrefix(`
n,body,attributes
1,plain,"{""k"":""v"",""n"":""7""}"
18446744073709551615,"two
lines, ""quoted""","[null,1.5,""NaN"",1.10,true]"
,,{}
`, "\n"), render(t, "csv", 0))
	require.Equal(t, strings.TrimPrefix(`
[
{"n":1,"body":"plain","attributes":{"k":"v","n":"7"}},
{"n":18446744073709551615,"body":"two\nlines, \"quoted\"","attributes":[null,1.5,"NaN",1.10,true]},
{"n":null,"body":null,"attributes":{}}
]
`, "\n"), render(t, "json", 0))
	require.Contains(t, render(t, "table", 5), "{k=v,…")
	require.Contains(t, render(t, "table", 5), `two\n…`)
}

func TestResult_no_rows(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"table": "a\n(0 rows)\n", "csv": "a\n", "json": "[]\n"} {
		var b bytes.Buffer
		w := newResultWriter(format, false, &b, 0)
		require.NoError(t, w.begin([]column{{name: "a"}}))
		require.NoError(t, w.end())
		require.Equal(t, want, b.String())
	}
}

func TestFloatText(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{1: "1.0", -0.5: "-0.5", 1e300: "1e+300", math.Inf(-1): "-Infinity"} {
		require.Equal(t, want, floatText(f))
	}
}
