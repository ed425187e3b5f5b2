package segment_test

import (
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

var testID = segment.ID{
	UUID:   uuid.MustParse("0198c0de-0001-7abc-8def-0123456789ab"),
	Writer: [6]byte{0xde, 0xad, 0xbe, 0xef, 0, 1},
	Seq:    42,
}

const testName = "0198c0de-0001-7abc-8def-0123456789ab-deadbeef0001-42"

func TestID(t *testing.T) {
	t.Parallel()
	require.Equal(t, testName, testID.String())
	require.Equal(t, testName+".arrow", testID.FileName())
	require.Equal(t, testName+".arrow.partial", testID.PartialName())
	got, partial, err := segment.ParseName(testID.FileName())
	require.NoError(t, err)
	require.False(t, partial)
	require.Equal(t, testID, got)
	got, partial, err = segment.ParseName(testID.PartialName())
	require.NoError(t, err)
	require.True(t, partial)
	require.Equal(t, testID, got)
}

// Nothing parses but what String returns: a name has one spelling.
func TestParseName_refuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", ".arrow", testName, testName + ".arrow.tmp", testName + ".arrow.partial.partial", testName + ".parquet",
		strings.ToUpper(testName) + ".arrow",
		strings.Replace(testName, "7abc", "4abc", 1) + ".arrow", // another UUID version
		strings.Replace(testName, "8def", "cdef", 1) + ".arrow", // another variant
		strings.Replace(testName, "deadbeef0001", "deadbeef001", 1) + ".arrow",
		strings.Replace(testName, "deadbeef0001", "DEADBEEF0001", 1) + ".arrow",
		strings.Replace(testName, "-42", "-042", 1) + ".arrow",
		strings.Replace(testName, "-42", "-0", 1) + ".arrow",
		strings.Replace(testName, "-42", "-+42", 1) + ".arrow",
		strings.Replace(testName, "-42", "-18446744073709551616", 1) + ".arrow",
		strings.Replace(testName, "-42", "-", 1) + ".arrow",
		"../" + testName + ".arrow",
		"ingester-0-0198c0de-0001-7abc-8def-0123456789ab.arrow", // the reference's form
		"{0198c0de-0001-7abc-8def-0123456789ab}"[:36] + "-deadbeef0001-42.arrow",
	} {
		_, _, err := segment.ParseName(name)
		require.ErrorIs(t, err, segment.ErrNotID, name)
	}
}

func FuzzSegmentName(f *testing.F) {
	f.Add(testID.FileName())
	f.Add(testID.PartialName())
	f.Add("0198c0de-0001-7abc-8def-0123456789ab-deadbeef0001-042.arrow")
	f.Fuzz(func(t *testing.T, name string) {
		id, partial, err := segment.ParseName(name)
		switch {
		case err != nil:
		case partial:
			require.Equal(t, name, id.PartialName())
		default:
			require.Equal(t, name, id.FileName())
		}
	})
}

// ORD-1: ids of one writer sort as given out and count without a gap, whatever the clock and however many ask.
func TestNamer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	n := segment.NewNamer([6]byte{1})
	clock := []time.Time{now, now, now.Add(time.Millisecond), now.Add(-time.Hour), now, time.Unix(-5, 0), time.UnixMilli(math.MaxInt64)}
	var ids []segment.ID
	for range 3 {
		for _, at := range clock {
			ids = append(ids, n.Next(at))
		}
	}
	for i, id := range ids {
		require.EqualValues(t, i+1, id.Seq)
		require.Equal(t, uuid.Version(7), id.UUID.Version())
		require.Equal(t, uuid.RFC4122, id.UUID.Variant())
		back, err := segment.ParseID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, back)
		if i > 0 {
			require.Less(t, ids[i-1].UUID.String(), id.UUID.String())
		}
	}
	sec, nsec := ids[0].UUID.Time().UnixTime()
	require.WithinDuration(t, now, time.Unix(sec, nsec), time.Millisecond)
}

func TestNamer_concurrent(t *testing.T) {
	t.Parallel()
	n := segment.NewNamer([6]byte{1})
	seqs := make([][]uint64, 8)
	var wg sync.WaitGroup
	for g := range seqs {
		wg.Go(func() {
			for range 500 {
				seqs[g] = append(seqs[g], n.Next(time.Now()).Seq)
			}
		})
	}
	wg.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(seqs...)))
	for i, s := range all {
		require.EqualValues(t, i+1, s)
	}
}
