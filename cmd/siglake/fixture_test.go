package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/wal"
)

var update = flag.Bool("update", false, "rewrite the golden files under testdata")

// testNow is the clock of every command in a test.
var testNow = time.Date(2026, 5, 17, 12, 0, 0, 0, time.UTC)

// site is a data directory and a command line to look at it.
type site struct {
	tb       testing.TB
	dir      string
	terminal bool
	fs       vfs.FS
	stdin    io.Reader
	env      map[string]string // beside SIGLAKE_DATA
}

// newSite makes a data directory with an empty WAL root.
func newSite(tb testing.TB) *site {
	tb.Helper()
	s := &site{tb: tb, dir: tb.TempDir(), fs: vfs.OS(), stdin: strings.NewReader("")}
	_, err := segment.Create(s.fs, s.walDir())
	require.NoError(tb, err)
	return s
}

func (s *site) walDir() string { return filepath.Join(s.dir, "wal") }

// result is what a command did.
type result struct {
	code           int
	stdout, stderr string
}

func (s *site) run(args ...string) result {
	s.tb.Helper()
	var out, errs bytes.Buffer
	code := run(s.tb.Context(), environment{
		fs: s.fs, kernel: testKernel(), now: func() time.Time { return testNow }, terminal: s.terminal, stdin: s.stdin, stdout: &out, stderr: &errs,
		getenv:    func(name string) string { return cmp.Or(s.env[name], map[string]string{"SIGLAKE_DATA": s.dir}[name]) },
		interrupt: context.WithCancel,
	}, args)
	return result{code, out.String(), errs.String()}
}

// testKernel is one on whose disks everything is as it should be.
func testKernel() kernel {
	return kernel{
		volume: func(string) (vfs.Volume, error) {
			return vfs.Volume{Type: "ext4", Source: "/dev/sda1", Mount: "/", Options: []string{"rw"}}, nil
		},
		synchronised: func() (bool, error) { return true, nil },
	}
}

// ok runs a command that must succeed, and returns what it printed.
func (s *site) ok(args ...string) string {
	s.tb.Helper()
	r := s.run(args...)
	require.Equal(s.tb, 0, r.code, "%s", r.stderr)
	require.Empty(s.tb, r.stderr)
	return r.stdout
}

func (s *site) root() *segment.Root {
	s.tb.Helper()
	r, err := segment.Open(s.fs, s.walDir())
	require.NoError(s.tb, err)
	return r
}

func (s *site) lane(tenant, index string) segment.Lane {
	s.tb.Helper()
	l, err := s.root().Lane(tenant, index)
	require.NoError(s.tb, err)
	require.NoError(s.tb, l.Prepare())
	return l
}

// logs makes n log records whose texts follow from first.
func logs(first, n int) plog.Logs {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("service.name", "shop")
	sl := rl.ScopeLogs().AppendEmpty()
	for i := first; i < first+n; i++ {
		r := sl.LogRecords().AppendEmpty()
		r.SetTimestamp(pcommon.NewTimestampFromTime(testNow.Add(time.Duration(i) * time.Second)))
		r.Body().SetStr(fmt.Sprintf("row %d", i))
		r.SetSeverityNumber(plog.SeverityNumberInfo)
		r.Attributes().PutStr("http.route", "/cart")
		r.Attributes().PutInt("n", int64(i))
	}
	return ld
}

// message encodes records as a WAL batch.
func message(tb testing.TB, ld plog.Logs) (body []byte, batch otelarrow.Batch) {
	tb.Helper()
	batch, err := otelarrow.EncodeLogs(ld, testNow, memory.DefaultAllocator)
	require.NoError(tb, err)
	enc, err := frame.NewEncoder(otelarrow.WALSchema(otelarrow.Logs))
	require.NoError(tb, err)
	body, err = enc.Append(nil, batch.Record)
	require.NoError(tb, err)
	return body, batch
}

// write lets a real writer append batches of rows to a lane, and seal them.
func (s *site) write(tenant, index string, batches ...int) {
	s.tb.Helper()
	l, err := wal.Open(s.tb.Context(), wal.Options{FS: s.fs, Dir: s.walDir()})
	require.NoError(s.tb, err)
	first := 0
	for _, n := range batches {
		body, b := message(s.tb, logs(first, n))
		_, err := l.Append(s.tb.Context(), wal.Request{
			Tenant: tenant, Index: index, Schema: otelarrow.WALSchema(otelarrow.Logs), Body: body, Rows: n,
			MinTime: b.MinTime, MaxTime: b.MaxTime, Mode: wal.WaitFor,
		})
		require.NoError(s.tb, err)
		first += n
	}
	require.NoError(s.tb, l.Close(s.tb.Context()))
}

// partial returns the bytes of an open segment with batches of rows.
func partial(tb testing.TB, table uuid.UUID, batches ...int) []byte {
	tb.Helper()
	return open(tb, otelarrow.WALSchema(otelarrow.Logs), table, batches...)
}

func open(tb testing.TB, as *arrow.Schema, table uuid.UUID, batches ...int) []byte {
	tb.Helper()
	head := frame.Header{Partial: true, Table: table}.Encode()
	schema, err := frame.EncodeSchema(as)
	require.NoError(tb, err)
	file := append(head[:], schema...)
	first := 0
	for _, n := range batches {
		body, _ := message(tb, logs(first, n))
		file = append(file, body...)
		first += n
	}
	return file
}

// sealed returns the bytes of a sealed segment with batches of rows.
func sealed(tb testing.TB, table uuid.UUID, batches ...int) []byte {
	tb.Helper()
	return seal(partial(tb, table, batches...), table, batches...)
}

// named returns the bytes of a sealed segment that says which one it is, as the writer makes them.
func named(tb testing.TB, id segment.ID, batches ...int) []byte {
	tb.Helper()
	return seal(open(tb, id.Name(otelarrow.WALSchema(otelarrow.Logs)), uuid.Nil, batches...), uuid.Nil, batches...)
}

// seal makes an open segment a sealed one.
func seal(file []byte, table uuid.UUID, batches ...int) []byte {
	file = append(file, frame.EOS()...)
	rows := 0
	for _, n := range batches {
		rows += n
	}
	at := testNow.UnixNano()
	h := frame.Header{
		Table: table, MinTime: at, MaxTime: at + int64(rows-1)*int64(time.Second),
		BodyLen: uint64(len(file) - frame.HeaderSize), CRC: crc(file[frame.HeaderSize:]),
	}.Encode()
	copy(file, h[:])
	return file
}

// segmentID is the n-th id of the tests.
func segmentID(n int) segment.ID {
	u := uuid.MustParse(fmt.Sprintf("019e0000-0000-7000-8000-%012d", n))
	return segment.ID{UUID: u, Writer: [6]byte{0xAB}, Seq: uint64(n)}
}

// put stores a file as a segment in a state, age old.
func (s *site) put(l segment.Lane, st segment.State, n int, file []byte, age time.Duration) segment.ID {
	s.tb.Helper()
	id := segmentID(n)
	name := id.FileName()
	if st == segment.Active {
		name = id.PartialName()
	}
	if st == segment.Stale {
		name = filepath.Join(testTable.String(), name)
		require.NoError(s.tb, s.fs.MkdirAll(l.Path(st, testTable.String())))
	}
	path := l.Path(st, name)
	require.NoError(s.tb, os.WriteFile(path, file, 0o640))
	require.NoError(s.tb, os.Chtimes(path, testNow.Add(-age), testNow.Add(-age)))
	if st == segment.Poison {
		note := fmt.Sprintf(`{"reason":"frame: CRC mismatch","attempts":3,"time":%q}`, testNow.Format(time.RFC3339))
		require.NoError(s.tb, os.WriteFile(path+".json", []byte(note), 0o640))
	}
	return id
}

var testTable = uuid.MustParse("0192f0c1-7a2b-4c3d-8e4f-5a6b7c8d9e0f")

// Parts of the output that differ from run to run.
var (
	digit   = regexp.MustCompile(`\d`)
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ \(\d+[a-z0-9]* ago\)`)
	anySize = regexp.MustCompile(`\d+\.\d [KM]iB|\d[\d,]* bytes`)
	anyCRC  = regexp.MustCompile(`(CRC-32|says|has) [0-9a-f]{8}\b`)
	anyPID  = regexp.MustCompile(`host \S+, pid \d+, since \S+|pid \d+ on \S+`)
)

// golden compares a command's output with a file of testdata.
func (s *site) golden(name, got string) {
	s.tb.Helper()
	got = strings.ReplaceAll(got, s.dir, "DATA")
	got = anyUUID.ReplaceAllStringFunc(got, func(u string) string {
		if strings.HasPrefix(u, "019e0000") || u == testTable.String() {
			return u // ours
		}
		return "00000000-aaaa-bbbb-cccc-dddddddddddd"
	})
	got = anyTime.ReplaceAllString(got, "2026-01-01T00:00:00Z (1s ago)")
	got = anySize.ReplaceAllStringFunc(got, func(n string) string { return digit.ReplaceAllString(n, "#") })
	got = anyCRC.ReplaceAllString(got, "$1 ########")
	got = anyPID.ReplaceAllString(got, "SOMEBODY")
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(s.tb, os.MkdirAll("testdata", 0o750))
		require.NoError(s.tb, os.WriteFile(path, []byte(got), 0o640))
	}
	want, err := os.ReadFile(path)
	require.NoError(s.tb, err)
	require.Equal(s.tb, string(want), got)
}

// writeUntilKilled acknowledges three rows into an open segment, says so on stdout, and waits.
func writeUntilKilled(dir string) {
	ctx := context.Background()
	l, err := wal.Open(ctx, wal.Options{FS: vfs.OS(), Dir: dir, MaxAge: time.Hour})
	if err != nil {
		panic(err)
	}
	batch, err := otelarrow.EncodeLogs(logs(0, 3), testNow, memory.DefaultAllocator)
	if err != nil {
		panic(err)
	}
	enc, err := frame.NewEncoder(otelarrow.WALSchema(otelarrow.Logs))
	if err != nil {
		panic(err)
	}
	body, err := enc.Append(nil, batch.Record)
	if err != nil {
		panic(err)
	}
	if _, err := l.Append(ctx, wal.Request{
		Tenant: "default", Index: "events", Schema: otelarrow.WALSchema(otelarrow.Logs), Body: body, Rows: 3,
		MinTime: batch.MinTime, MaxTime: batch.MaxTime, Mode: wal.WaitFor,
	}); err != nil {
		panic(err)
	}
	fmt.Println("acknowledged")
	select {}
}

// commandOn runs a command on a file system, as a walk of kills does. The error is what it said.
func commandOn(fsys vfs.FS, args ...string) error {
	var said strings.Builder
	if run(context.Background(), environment{
		fs: fsys, now: time.Now, stdin: strings.NewReader(""), stdout: &said, stderr: &said,
		getenv: func(string) string { return "" }, interrupt: context.WithCancel,
	}, args) != 0 {
		return errors.New(said.String())
	}
	return nil
}
