package drain

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/siglakecol/siglakecol/internal/frame"
	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/otelarrow"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
	"github.com/siglakecol/siglakecol/internal/vfs/simfs"
)

// world is a root with one writer and a catalog, and what the table must hold in the end.
type world struct {
	t      *testing.T
	fs     vfs.FS
	dir    string
	root   *segment.Root
	namers map[string]*segment.Namer // by index
	tables *fakeCatalog
	want   map[string]int // rows by segment id, default/events
	logs   *observer.ObservedLogs
	bytes  encodings
	opt    Options
}

func newWorld(t *testing.T, fsys vfs.FS, dir string) *world {
	t.Helper()
	w := &world{
		t: t, fs: fsys, dir: dir,
		namers: make(map[string]*segment.Namer),
		tables: newFakeCatalog(),
		want:   make(map[string]int),
		bytes:  make(encodings),
	}
	var err error
	w.root, err = segment.Create(fsys, dir)
	require.NoError(t, err)
	core, logs := observer.New(zap.DebugLevel)
	w.logs = logs
	w.opt = Options{
		FS: fsys, WAL: dir, Poll: 5 * time.Millisecond, GateAge: time.Nanosecond, Retain: time.Hour,
		Logger: zap.New(core),
	}
	return w
}

// onDisk is a world in memory, for what needs no real file system.
func onDisk(t *testing.T) *world {
	t.Helper()
	return newWorld(t, simfs.New(nil), "/wal")
}

func (w *world) options() Options {
	w.t.Helper()
	opt := w.opt
	opt.OpenLake = func(context.Context) (*lake.Lake, error) { return nil, errors.New("not asked here") }
	opt, err := opt.withDefaults()
	require.NoError(w.t, err)
	return opt
}

func (w *world) once() Report {
	w.t.Helper()
	r, err := once(w.t.Context(), w.options(), w.tables)
	require.NoError(w.t, err)
	return r
}

// start runs a drain until the function is called, which waits for it.
func (w *world) start() (stop func() error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	opt := w.options()
	go func() { done <- run(ctx, opt, w.tables) }()
	return func() error {
		cancel()
		return <-done
	}
}

func (w *world) lane(index string) segment.Lane {
	w.t.Helper()
	l, err := w.root.Lane("default", index)
	require.NoError(w.t, err)
	require.NoError(w.t, l.Prepare())
	return l
}

// spec describes a segment to seal. Rows 0 means 3.
type spec struct {
	index   string // "" = events
	signal  otelarrow.Signal
	rows    int
	table   uuid.UUID
	partial bool
	mangle  func([]byte) []byte
	state   segment.State // "" = sealed
	name    string        // to seal a certain id
	at      time.Time     // event time of its rows; zero: they have none, and are as old as batchTime
	days    int           // row n is n % days days older than at; 0 = none is
}

func (s spec) orDefault() spec {
	if s.index == "" {
		s.index = "events"
	}
	if s.rows == 0 {
		s.rows = 3
	}
	if s.state == "" {
		s.state = segment.Sealed
	}
	return s
}

// namer is the one writer of default/<index>.
func (w *world) namer(index string) *segment.Namer {
	if w.namers[index] == nil {
		w.namers[index] = segment.NewNamer([6]byte{1, 2, 3, 4, 5, byte(len(w.namers))})
	}
	return w.namers[index]
}

// seal puts a segment on disk as the writer would and expects its rows in the table.
func (w *world) seal(s spec) string {
	w.t.Helper()
	s = s.orDefault()
	var id segment.ID
	if s.name != "" {
		var err error
		id, _, err = segment.ParseName(s.name)
		require.NoError(w.t, err)
	} else {
		id = w.namer(s.index).Next(time.Now())
	}
	data := w.bytes.of(w.t, s)
	if s.mangle != nil {
		data = s.mangle(data)
	}
	lane := w.lane(s.index)
	put(w.t, w.fs, lane.Path(s.state, id.FileName()), data)
	require.NoError(w.t, w.fs.SyncDir(lane.Dir(s.state)))
	if s.index == "events" {
		w.want[id.String()] = s.rows
	}
	return id.FileName()
}

// encodings keeps the bytes of segments that differ in name only: sweeps seal the same thousands of times.
type encodings map[encoding][]byte

type encoding struct {
	signal  otelarrow.Signal
	rows    int
	table   uuid.UUID
	partial bool
	at      time.Time
	days    int
}

func (e encodings) of(t *testing.T, s spec) []byte {
	t.Helper()
	key := encoding{s.signal, s.rows, s.table, s.partial, s.at, s.days}
	if e[key] == nil {
		e[key] = encode(t, s)
	}
	return slices.Clone(e[key])
}

func encode(t *testing.T, s spec) []byte {
	t.Helper()
	schema := otelarrow.WALSchema(s.signal)
	body, err := frame.EncodeSchema(schema)
	require.NoError(t, err)
	enc, err := frame.NewEncoder(schema)
	require.NoError(t, err)
	batch := records(t, s)
	defer batch.Record.Release()
	body, err = enc.Append(body, batch.Record)
	require.NoError(t, err)
	if !s.partial {
		body = append(body, frame.EOS()...)
	}
	return sealed(body, s, batch.MinTime, batch.MaxTime)
}

// sealed puts the header of a sealed or a recovered segment before a body.
func sealed(body []byte, s spec, minTime, maxTime int64) []byte {
	h := frame.Header{Table: s.table, Partial: s.partial}
	if !s.partial {
		h.MinTime, h.MaxTime = minTime, maxTime
		h.BodyLen, h.CRC = uint64(len(body)), crc32.ChecksumIEEE(body)
	}
	head := h.Encode()
	return append(head[:], body...)
}

func records(t *testing.T, s spec) otelarrow.Batch {
	t.Helper()
	at := batchTime()
	var batch otelarrow.Batch
	var err error
	if s.signal == otelarrow.Traces {
		td := ptrace.NewTraces()
		spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
		for i := range s.rows {
			spans.AppendEmpty().SetName(fmt.Sprint("span ", i))
		}
		batch, err = otelarrow.NewEncoder().EncodeTraces(at, td)
	} else {
		ld := plog.NewLogs()
		logs := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
		for i := range s.rows {
			r := logs.AppendEmpty()
			r.Body().SetStr(fmt.Sprint("row ", i))
			if !s.at.IsZero() {
				r.SetTimestamp(pcommon.NewTimestampFromTime(s.at.AddDate(0, 0, -(i % max(1, s.days)))))
			}
		}
		batch, err = otelarrow.NewEncoder().EncodeLogs(at, ld)
	}
	require.NoError(t, err)
	return batch
}

func batchTime() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// put makes a file, durable but for its name.
func put(t *testing.T, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	_, err = f.Writev([][]byte{data})
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// in lists the names of a state.
func (w *world) in(index string, st segment.State) []string {
	w.t.Helper()
	entries, _, err := w.lane(index).List(st)
	require.NoError(w.t, err)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names
}

// states counts the names of all states, those without one left out.
func (w *world) states(index string) map[segment.State]int {
	w.t.Helper()
	n := make(map[segment.State]int)
	for _, st := range []segment.State{
		segment.Active, segment.Sealed, segment.Processing, segment.Committed,
		segment.Orphans, segment.Poison, segment.Stale,
	} {
		if names := w.in(index, st); len(names) > 0 {
			n[st] = len(names)
		}
	}
	return n
}

// accounted is the oracle: every row of every segment sealed is in the table exactly once.
func (w *world) accounted() {
	w.t.Helper()
	require.NoError(w.t, w.tables.get("events").wrong(w.want))
}

// age sets a segment's modification time back.
func (w *world) age(path string, by time.Duration) {
	w.t.Helper()
	f, err := w.fs.OpenRW(path)
	require.NoError(w.t, err)
	require.NoError(w.t, f.Touch(time.Now().Add(-by)))
	require.NoError(w.t, f.Close())
}

// eventually polls for what a running drain brings about.
func eventually(t *testing.T, what func() bool, msg string) {
	t.Helper()
	require.Eventually(t, what, time.Minute, 5*time.Millisecond, msg)
}
