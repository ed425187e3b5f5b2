package lake

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/otelarrow/otlptest"
)

// What a file's footer says of its row groups, and its page index of the pages, holds for the rows in them: least and
// greatest value, number of NULLs, pages of NULLs only.
func TestFooter_statistics_and_page_index_hold(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	for _, signal := range signals {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			l := lakeAt(t, t.TempDir(), hooks{limits: limits{chunkRows: 4, rowGroupBytes: 1}})
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			boundsTable(t, l, otlptest.New(seed, false), signal)
			tbl, err := l.open(t.Context(), table.Identifier{"siglake", signal.Table()})
			require.NoError(t, err)
			var claims, pages int
			for df, err := range l.dataFiles(tbl.CurrentSnapshot()) {
				require.NoError(t, err)
				path, err := localPath(df.FilePath())
				require.NoError(t, err)
				pf := openParquet(t, l, df)
				rows := parquetRows(t, path)
				for g := range pf.NumRowGroups() {
					n := int(pf.MetaData().RowGroup(g).NumRows())
					claims += checkGroup(t, pf, g, rows[:n])
					pages += checkPages(t, pf, g, rows[:n])
					rows = rows[n:]
				}
				require.Empty(t, rows)
			}
			require.Greater(t, claims, 500)
			require.Greater(t, pages, 500)
		})
	}
}

// checkGroup holds the statistics of a row group against its rows and returns how many columns have any.
func checkGroup(t *testing.T, pf *file.Reader, group int, rows []otlptest.Row) (claims int) {
	t.Helper()
	for i := range pf.MetaData().Schema.NumColumns() {
		leaf := pf.MetaData().Schema.Column(i)
		if strings.Contains(leaf.Path(), ".") {
			continue
		}
		col, err := pf.MetaData().RowGroup(group).ColumnChunk(i)
		require.NoError(t, err)
		set, err := col.StatsSet()
		require.NoError(t, err)
		if !set {
			continue
		}
		stats, err := col.Statistics()
		require.NoError(t, err)
		if stats.HasNullCount() {
			require.EqualValues(t, nulls(rows, leaf.Path()), stats.NullCount(), leaf.Path())
		}
		if stats.HasMinMax() && len(stats.EncodeMin())+len(stats.EncodeMax()) > 0 {
			requireWithin(t, leaf.PhysicalType(), leaf.Path(), rows, stats.EncodeMin(), stats.EncodeMax())
			claims++
		}
	}
	return claims
}

// checkPages holds the page index of a row group against its rows and returns how many pages have values.
func checkPages(t *testing.T, pf *file.Reader, group int, rows []otlptest.Row) (pages int) {
	t.Helper()
	reader, err := pf.GetPageIndexReader().RowGroup(group)
	require.NoError(t, err)
	require.NotNil(t, reader)
	for i := range pf.MetaData().Schema.NumColumns() {
		leaf := pf.MetaData().Schema.Column(i)
		if strings.Contains(leaf.Path(), ".") {
			continue
		}
		index, err := reader.GetColumnIndex(i)
		require.NoError(t, err)
		if index == nil {
			continue
		}
		offsets, err := reader.GetOffsetIndex(i)
		require.NoError(t, err)
		at := offsets.GetPageLocations()
		require.Len(t, index.GetMinValues(), len(at), leaf.Path())
		for p, loc := range at {
			end := int64(len(rows))
			if p+1 < len(at) {
				end = at[p+1].FirstRowIndex
			}
			in := rows[loc.FirstRowIndex:end]
			if index.IsSetNullCounts() {
				require.EqualValues(t, nulls(in, leaf.Path()), index.GetNullCounts()[p], leaf.Path())
			}
			require.Equal(t, nulls(in, leaf.Path()) == len(in), index.GetNullPages()[p], "%s: page of NULLs", leaf.Path())
			if !index.GetNullPages()[p] {
				requireWithin(t, leaf.PhysicalType(), leaf.Path(), in, index.GetMinValues()[p], index.GetMaxValues()[p])
				pages++
			}
		}
	}
	return pages
}

func nulls(rows []otlptest.Row, column string) int {
	n := 0
	for _, r := range rows {
		if r[column] == nil {
			n++
		}
	}
	return n
}

// requireWithin reads bounds in plain encoding and compares. A bound of zero is -0 below and +0 above, as Parquet asks,
// and none is NaN.
func requireWithin(t *testing.T, kind parquet.Type, column string, rows []otlptest.Row, lo, hi []byte) {
	t.Helper()
	double := func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
	if kind == parquet.Types.Double {
		require.False(t, math.IsNaN(double(lo)) || math.IsNaN(double(hi)), "%s: a bound is NaN", column)
		require.False(t, double(lo) == 0 && !math.Signbit(double(lo)), "%s: the lower bound is +0", column)
		require.False(t, double(hi) == 0 && math.Signbit(double(hi)), "%s: the upper bound is -0", column)
	}
	for _, r := range rows {
		var ok bool
		switch v := r[column].(type) {
		case nil:
			continue
		case string:
			ok = bytes.Compare(lo, []byte(v)) <= 0 && bytes.Compare([]byte(v), hi) <= 0
		case float64:
			ok = math.IsNaN(v) || double(lo) <= v && v <= double(hi)
		case bool:
			ok = (lo[0] == 0 || v) && (hi[0] == 1 || !v)
		case int64:
			if kind == parquet.Types.Int32 {
				ok = int64(int32(binary.LittleEndian.Uint32(lo))) <= v && v <= int64(int32(binary.LittleEndian.Uint32(hi)))
			} else {
				ok = int64(binary.LittleEndian.Uint64(lo)) <= v && v <= int64(binary.LittleEndian.Uint64(hi))
			}
		}
		require.True(t, ok, "%s: %.60v is outside of %x to %x", column, r[column], lo, hi)
	}
}
