package lake

import (
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

var proofTime = time.UnixMilli(1_790_000_000_123)

// testID makes a segment id of our form, born at the given time.
func testID(tb testing.TB, made time.Time, seq uint64) string {
	tb.Helper()
	id := ownID{uuid: uuid.New(), writer: [6]byte{1, 2, 3, 4, 5, byte(seq % 3)}, seq: seq}
	id.setMade(made.UnixMilli())
	id.uuid[6] = id.uuid[6]&0x0f | 0x70
	return id.String()
}

func entries(ids ...string) []proofEntry {
	out := make([]proofEntry, len(ids))
	for i, id := range ids {
		out[i] = proofEntry{id: id, rows: int64(100 + i)}
	}
	return out
}

// LAKE-1: what is written is what is read, for ids of every kind.
func TestProof_what_is_written_is_read(t *testing.T) {
	t.Parallel()
	l := limits{}.orDefault()
	p := proof{table: uuid.New(), coverage: proofTime.Add(-time.Hour).UnixMilli()}
	require.Equal(t, p, decoded(t, p))
	for i := range 20 {
		own := testID(t, proofTime.Add(time.Duration(i)*time.Second), uint64(i))
		upper := strings.ToUpper(testID(t, proofTime, 7)) // not of our form: must keep its spelling
		p = p.merge(proofTime.Add(time.Duration(i)*time.Second), entries(own, upper, fmt.Sprintf("foreign-%d", i), "0"), l)
		require.Equal(t, p, decoded(t, p))
	}
	rows := p.rows()
	require.Equal(t, int64(102), rows["foreign-3"])
	require.Equal(t, int64(103), rows["0"], "an id named again stands once, in the newest commit")
	require.Len(t, rows, 20*3+1)
}

var update = flag.Bool("update", false, "rewrite golden files")

// The format is a promise to later versions: what version 1 wrote is read for ever.
func TestProof_golden(t *testing.T) {
	t.Parallel()
	p := proof{table: uuid.MustParse("0d0f31c7-14c9-4a2e-8a57-0c61b0f5a001"), coverage: proofTime.Add(-time.Hour).UnixMilli()}
	l := limits{}.orDefault()
	p = p.merge(proofTime, []proofEntry{
		{id: "01a0d3b2-5a00-7abc-8def-0123456789ab-00155d012345-1", rows: 4096},
		{id: "01a0d3b2-5a01-7abc-8def-0123456789ac-00155d012346-18446744073709551615", rows: 1},
		{id: "of another form", rows: 1 << 40},
	}, l)
	p = p.merge(proofTime.Add(10*time.Second), []proofEntry{{id: "01A0D3B2-5A01-7ABC-8DEF-0123456789AC-00155D012346-2", rows: 0}}, l)
	const file = "testdata/proof-v1.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(p.encode()+"\n"), 0o600))
	}
	golden, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(golden)), p.encode())
	require.Equal(t, p, decoded(t, p))
}

func decoded(tb testing.TB, p proof) proof {
	tb.Helper()
	got, err := decodeProof(p.encode())
	require.NoError(tb, err)
	return got
}

// LOUD-1: a proof with any byte wrong is an error and never an empty proof.
func TestProof_a_damaged_one_is_an_error(t *testing.T) {
	t.Parallel()
	p := proof{table: uuid.New()}.merge(proofTime, entries(testID(t, proofTime, 1), "x"), limits{}.orDefault())
	whole := p.encode()
	for i := range whole {
		for _, c := range []byte{'A', 'z', '*', 0} {
			if whole[i] == c {
				continue
			}
			_, err := decodeProof(whole[:i] + string(c) + whole[i+1:])
			require.ErrorIs(t, err, ErrProof, "byte %d is %q", i, c)
		}
		_, err := decodeProof(whole[:i])
		require.ErrorIs(t, err, ErrProof, "cut at %d", i)
	}
	_, err := decodeProof(whole + "A")
	require.ErrorIs(t, err, ErrProof)
	_, err = decodeProof("2." + whole[2:])
	require.ErrorContains(t, err, `version "2"`)
	_, err = decodeProof("")
	require.ErrorIs(t, err, ErrProof)
}

// LAKE-1: an id is only ever dropped together with the claim to know about its time.
func TestProof_dropping_old_ids_moves_the_coverage(t *testing.T) {
	t.Parallel()
	l := limits{proofEntries: 10}.orDefault()
	p := proof{table: uuid.New()}
	require.True(t, covers(p.coverage, time.Unix(0, 0)), "nothing was committed yet: everything is known")
	var ids []string
	for i := range 30 {
		at := proofTime.Add(time.Duration(i) * time.Minute)
		ids = append(ids, testID(t, at, uint64(i)))
		p = p.merge(at, entries(ids[i]), l)
	}
	rows := p.rows()
	require.Len(t, rows, 10)
	for i, id := range ids {
		made := proofTime.Add(time.Duration(i) * time.Minute)
		_, listed := rows[id]
		require.True(t, listed || !covers(p.coverage, made), "segment %d is neither listed nor outside the coverage", i)
	}
	require.False(t, covers(p.coverage, proofTime.Add(19*time.Minute)))
	require.True(t, covers(p.coverage, proofTime.Add(29*time.Minute)))
}

func TestProof_the_newest_commit_stays_whole(t *testing.T) {
	t.Parallel()
	l := limits{proofEntries: 10}.orDefault()
	p := proof{table: uuid.New()}.merge(proofTime, entries("old"), l)
	var ids []string
	for i := range 50 {
		ids = append(ids, testID(t, proofTime, uint64(i)))
	}
	p = p.merge(proofTime.Add(time.Second), entries(ids...), l)
	require.Len(t, p.rows(), 50)
	require.Equal(t, proofTime.UnixMilli()+1, p.coverage)
}

// The clock of the committing machine going back must not reorder commits: the coverage would then lie.
func TestProof_time_never_goes_back(t *testing.T) {
	t.Parallel()
	l := limits{proofEntries: 1}.orDefault()
	p := proof{table: uuid.New()}.
		merge(proofTime, entries("a"), l).
		merge(proofTime.Add(-time.Hour), entries("b"), l).
		merge(proofTime.Add(-2*time.Hour), entries("c"), l)
	require.Equal(t, proofTime.UnixMilli()+1, p.coverage)
	require.Equal(t, proofTime.UnixMilli(), p.commits[0].at)
}

func TestProof_is_compact(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine at work: nothing for the race detector")
	}
	t.Parallel()
	l := limits{}.orDefault()
	p := proof{table: uuid.New()}
	for c := range 200 {
		var ids []string
		for i := range 20 {
			ids = append(ids, testID(t, proofTime.Add(time.Duration(c)*10*time.Second-time.Duration(i)*time.Second), uint64(c*20+i)))
		}
		p = p.merge(proofTime.Add(time.Duration(c)*10*time.Second), entries(ids...), l)
	}
	n, size := len(p.rows()), len(p.encode())
	t.Logf("%d ids, %d bytes, %.1f bytes per id", n, size, float64(size)/float64(n))
	require.LessOrEqual(t, n, l.proofEntries)
	require.Greater(t, n, l.proofEntries-20)
	require.Less(t, size, 26*n)
	require.InDelta(t, size, p.size(), float64(size)/5, "the estimate that bounds it is near")
}

func TestMadeAt_takes_the_earlier_of_id_and_file(t *testing.T) {
	t.Parallel()
	id := testID(t, proofTime, 1)
	for _, tc := range []struct {
		name string
		seg  Segment
		want time.Time
		ok   bool
	}{
		{"id_alone", Segment{ID: id}, proofTime, true},
		{"file_is_younger", Segment{ID: id, ModTime: proofTime.Add(time.Hour)}, proofTime, true},
		{"file_is_older", Segment{ID: id, ModTime: proofTime.Add(-time.Hour)}, proofTime.Add(-time.Hour), true},
		{"foreign_id", Segment{ID: "x", ModTime: proofTime}, proofTime, true},
		{"nothing", Segment{ID: "x"}, time.Time{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, ok := madeAt(tc.seg)
			require.Equal(t, tc.ok, ok)
			require.True(t, tc.want.Equal(got), "want %s, got %s", tc.want, got)
		})
	}
}

// LOUD-1: no input makes the decoder panic or take what it cannot write again.
func FuzzDecodeProof(f *testing.F) {
	l := limits{}.orDefault()
	p := proof{table: uuid.New(), coverage: 5}.merge(proofTime, entries("a", testID(f, proofTime, 9)), l)
	f.Add(p.encode())
	f.Add("")
	f.Add("1.")
	f.Add("1.AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := decodeProof(s)
		if err != nil {
			require.ErrorIs(t, err, ErrProof)
			return
		}
		require.Equal(t, got, decoded(t, got))
	})
}

// The same for bytes behind a right checksum, which a fuzzer does not find by itself.
func FuzzProofReader(f *testing.F) {
	p := proof{table: uuid.New(), coverage: 5}.merge(proofTime, entries("a", testID(f, proofTime, 9)), limits{}.orDefault())
	b, err := base64.RawURLEncoding.DecodeString(p.encode()[2:])
	require.NoError(f, err)
	f.Add(b[:len(b)-4])
	f.Fuzz(func(t *testing.T, b []byte) {
		r := proofReader{b: b}
		if p := r.proof(); r.err == nil && len(r.b) == 0 {
			require.Equal(t, p.rows(), decoded(t, p).rows())
		}
	})
}
