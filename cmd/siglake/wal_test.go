package main

import (
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/siglakecol/siglakecol/internal/segment"
)

func crc(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

func TestWALList(t *testing.T) {
	t.Parallel()
	s := troubled(t)
	s.golden("wal_ls.txt", s.ok("wal", "ls"))
	t.Run("filtered", func(t *testing.T) {
		t.Parallel()
		var got []listed
		require.NoError(t, json.Unmarshal([]byte(s.ok("wal", "ls", "--state", "poison", "--lane", "default/events", "-o", "json")), &got))
		require.Len(t, got, 1)
		require.Equal(t, segmentID(7).String(), got[0].ID)
		require.Equal(t, "frame: CRC mismatch", got[0].Note)
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "No segments.\n", s.ok("wal", "ls", "--lane", "team-a/spans"))
		require.Equal(t, "[]\n", s.ok("wal", "ls", "--lane", "team-a/spans", "-o", "json"))
	})
	t.Run("wrong_filter", func(t *testing.T) {
		t.Parallel()
		r := s.run("wal", "ls", "--state", "seled")
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, `--state: "seled" is not one of active, sealed`)
		r = s.run("wal", "ls", "--lane", "events")
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, "it has: default/events, team-a/spans")
	})
}

func TestWALInspect(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := s.lane("default", "events")
	good := s.put(l, segment.Sealed, 1, sealed(t, testTable, 3, 2), time.Second)
	torn := partial(t, testTable, 3, 2)
	open := s.put(l, segment.Active, 2, torn[:len(torn)-100], time.Second)
	bad := sealed(t, uuid.Nil, 3)
	bad[3000] ^= 1
	damaged := s.put(l, segment.Poison, 3, bad, time.Hour)
	newer := s.put(l, segment.Sealed, 4, append([]byte("LWAL\x03"), make([]byte, 100)...), time.Second)
	old := filepath.Join(s.dir, "from-elsewhere.arrow")
	v1 := sealed(t, uuid.Nil, 2)
	v1[4] = 1
	require.NoError(t, os.WriteFile(old, append(v1[:36:36], v1[52:]...), 0o640))

	s.golden("wal_inspect.txt", s.ok("wal", "inspect", good.String(), open.PartialName(), newer.String(), old))
	t.Run("damaged", func(t *testing.T) {
		t.Parallel()
		r := s.run("wal", "inspect", damaged.FileName())
		require.Equal(t, exitDamage, r.code)
		require.Contains(t, r.stdout, "check       damaged: offset 52: frame: CRC mismatch")
		require.Contains(t, r.stdout, "note        frame: CRC mismatch")
		require.Contains(t, r.stderr, "1 segment damaged: "+l.Path(segment.Poison, damaged.FileName()))
	})
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		var got []inspected
		require.NoError(t, json.Unmarshal([]byte(s.ok("wal", "inspect", "-o", "json", good.String())), &got))
		require.Equal(t, inspected{
			Path: l.Path(segment.Sealed, good.FileName()), Lane: "default/events", State: "sealed", ID: good.String(),
			Bytes: got[0].Bytes, Format: "v2", Table: testTable.String(), MinTime: "2026-05-17T12:00:00Z", MaxTime: "2026-05-17T12:00:04Z",
			BodyLen: uint64(got[0].Bytes - 52), CRC: got[0].CRC, Signal: "logs", Batches: 2, Rows: 5, Complete: true, Check: "ok",
		}, got[0])
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		for _, arg := range []string{segmentID(99).String(), "nonsense", "."} {
			r := s.run("wal", "inspect", arg)
			require.Equal(t, exitUsage, r.code, arg)
		}
		require.Equal(t, exitUsage, s.run("wal", "inspect").code)
	})
}

func TestWALVerify(t *testing.T) {
	t.Parallel()
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.write("default", "events", 3, 2)
		s.write("team-a", "spans", 4)
		out := s.ok("wal", "verify")
		require.Regexp(t, `^2 segments, [0-9.]+ KiB, 9 rows: 0 damaged, 0 torn, 0 of a newer format, 0 gaps\n$`, out)
	})
	// LOUD-1.
	t.Run("damage_is_named", func(t *testing.T) {
		t.Parallel()
		s := troubled(t)
		r := s.run("wal", "verify")
		require.Equal(t, exitDamage, r.code)
		s.golden("wal_verify.txt", r.stdout)
		require.Equal(t, "siglake: 1 segment damaged\n", r.stderr)
	})
	t.Run("open_and_recovered_segments_may_be_torn", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		l := s.lane("default", "events")
		torn := partial(t, uuid.Nil, 3, 2)
		s.put(l, segment.Active, 1, torn[:len(torn)-9], time.Second)
		s.put(l, segment.Sealed, 2, torn[:len(torn)-10], time.Second)
		s.put(l, segment.Active, 3, nil, time.Second) // just created
		s.put(l, segment.Active, 4, torn[:52], time.Second)
		out := s.ok("wal", "verify")
		require.Contains(t, out, "4 segments")
		require.Contains(t, out, "6 rows: 0 damaged, 2 torn")
	})
	t.Run("a_sealed_segment_may_not", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		file := sealed(t, uuid.Nil, 3)
		s.put(s.lane("default", "events"), segment.Sealed, 1, file[:len(file)-1], time.Second)
		require.Equal(t, exitDamage, s.run("wal", "verify").code)
	})
	t.Run("newer_format_is_no_damage_and_no_success", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.put(s.lane("default", "events"), segment.Sealed, 1, append([]byte("LWAL\x03"), make([]byte, 100)...), time.Second)
		r := s.run("wal", "verify", "-o", "json")
		require.Equal(t, exitFailed, r.code)
		var v verified
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &v))
		require.Equal(t, 1, v.Newer)
		require.Equal(t, checkNewer, v.Findings[0].Check)
	})
	// Case A5.
	t.Run("A5_a_missing_segment_is_named_until_it_is_acknowledged", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		l := s.lane("default", "events")
		ids := []segment.ID{}
		for n := range 5 {
			ids = append(ids, s.put(l, segment.Sealed, n+1, sealed(t, uuid.Nil, 3), time.Second))
		}
		require.NoError(t, s.fs.Remove(l.Path(segment.Sealed, ids[2].FileName())))
		r := s.run("wal", "verify")
		require.Equal(t, exitDamage, r.code)
		require.Regexp(t, `^missing      default/events: number 3 of writer [0-9a-f]{12}\n4 segments, .*, 1 gap\n$`, r.stdout)
		require.Equal(t, "siglake: 1 gap in the sequence numbers\n", r.stderr)
		s.ok("wal", "verify", "--state", "sealed")
		var rep statusReport
		require.NoError(t, json.Unmarshal([]byte(s.ok("status", "-o", "json")), &rep))
		require.Equal(t, []segment.Gap{{Writer: "ab0000000000", First: 3, Last: 3}}, rep.WAL.Lanes[0].Gaps)
		require.Equal(t, advice{
			What:    "segments of default/events are missing, removed or lost: number 3 of writer ab0000000000",
			Command: "siglake wal verify --lane default/events",
		}, rep.Next[0])

		r = s.run("drain", "--once")
		require.Zero(t, r.code)
		require.Contains(t, r.stdout, "1 gap in the sequence numbers found")
		require.Contains(t, r.stderr, "gap in a writer's sequence numbers")
		require.NotContains(t, s.ok("drain", "--once"), "gaps")
		require.Equal(t, exitDamage, s.run("wal", "verify").code, "reported is not repaired")
		require.NoError(t, os.WriteFile(l.Path("", "ab0000000000-3-3.void"), nil, 0o600))
		s.ok("wal", "verify")
		s.ok("drain", "--once")
		s.ok("wal", "verify")
	})
	t.Run("a_damaged_record_of_numbers", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		l := s.lane("default", "events")
		s.put(l, segment.Sealed, 1, sealed(t, uuid.Nil, 3), time.Second)
		require.NoError(t, os.WriteFile(l.Path("", "numbers.json"), []byte("{"), 0o600))
		r := s.run("wal", "verify")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "look for gaps: read numbers.json of lane default/events: segment: damaged record")
		require.Contains(t, s.ok("status"), "whether segments of default/events are missing is not known: read numbers.json")
	})
	t.Run("progress_on_a_terminal", func(t *testing.T) {
		t.Parallel()
		s := troubled(t)
		s.terminal = true
		require.Contains(t, s.run("wal", "verify").stderr, "verified 0 of 8 segments")
	})
}

// A segment that moves while it is looked at is followed; one that is retired is left out. Neither is an error.
func TestOpenSegment_moving(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l := s.lane("default", "events")
	id := s.put(l, segment.Active, 1, partial(t, uuid.Nil, 3), 0)
	seen := place{l, segment.Active, segment.Entry{Name: id.PartialName(), ID: id, Partial: true}}
	_, err := l.Seal(id.PartialName())
	require.NoError(t, err)
	f, p, err := openSegment(s.fs, seen)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, segment.Sealed, p.state)
	require.False(t, p.options().Open)

	_, err = l.Move(segment.Sealed, segment.Processing, []string{id.FileName()})
	require.NoError(t, err)
	_, err = l.Move(segment.Processing, segment.Committed, []string{id.FileName()})
	require.NoError(t, err)
	f, p, err = openSegment(s.fs, seen)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, segment.Committed, p.state)

	require.NoError(t, l.Retire([]string{id.FileName()}))
	_, _, err = openSegment(s.fs, seen)
	require.ErrorIs(t, err, errGone)
}
