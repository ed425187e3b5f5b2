package wal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// Mode is what an answer waits for. The order is the strength: a group commit obeys the strongest mode in it.
type Mode uint8

// The modes this package serves; the others of the product are built on them.
const (
	Auto    Mode = iota // the write
	WaitFor             // the write, and the syncs that make it survive a power cut
	modes
)

func (m Mode) String() string {
	switch m {
	case Auto:
		return "auto"
	case WaitFor:
		return "wait_for"
	default:
		return fmt.Sprintf("mode(%d)", uint8(m))
	}
}

const (
	defaultMaxEvents       = 4096
	defaultMaxAge          = 5 * time.Second
	defaultSegmentMaxBytes = 32 << 20
	defaultMaxInFlight     = 64 << 20
	// MaxSegmentBytes is the largest SegmentMaxBytes. A reader holds a segment as a whole and takes none over 1 GiB
	// (frame.DecodeOptions); the last group may carry a segment past its limit.
	MaxSegmentBytes = 512 << 20
	// defaultMaxWaiting is 80 ms of 100,000 requests/s, each with a goroutine and a connection's stream: some 100 MiB.
	defaultMaxWaiting = 8192
	// defaultMaxTenants and defaultMaxLanes are what was measured idle (docs/performance.md): a lane costs a
	// directory tree and, while rows come, an open file; three lanes and some room for each tenant.
	defaultMaxTenants = 1000
	defaultMaxLanes   = 4096
)

// Options say where the log is and when it refuses. The zero value of a field is its default.
type Options struct {
	FS  vfs.FS // nil: the real one
	Dir string // the root; made if its parent exists or may be made
	// Shared lets other processes that set it too write to the same root. What one of them leaves when it dies is
	// adopted by the others, and by the next to start.
	Shared bool

	// A segment is sealed when it holds MaxEvents rows (4,096), is MaxAge old (5 s) or has SegmentMaxBytes
	// (32 MiB). A request is never split: the last one may carry a segment past MaxEvents, and one larger than
	// SegmentMaxBytes gets a segment of its own.
	MaxEvents       int
	MaxAge          time.Duration
	SegmentMaxBytes int64

	// MaxBytes bounds all bytes below Dir (0: 75 % of the volume); Auto is refused from 80 % of it on. MinFree
	// is what must stay free on the volume (0: the larger of 5 % and 512 MiB). MaxInFlight bounds the bodies
	// queued and being written (64 MiB); a body alone is always let in.
	MaxBytes, MinFree, MaxInFlight int64

	// MaxWaiting bounds the requests, of any mode, between Enter and Leave (8,192). MaxLanes and MaxTenants
	// bound the directories that clients can make (4,096 and 1,000): those found at Open count, are served
	// whatever the number, and leave room for no new ones when they are more.
	MaxWaiting, MaxLanes, MaxTenants int

	// PaceAfter is how far the tables may fall behind, in time that the drain takes for what is sealed, until batches wait so
	// that no more comes in than the drain takes out (pace). 0: they never do, and the log takes what it can hold.
	PaceAfter time.Duration

	// FairShare keeps one tenant from using MaxInFlight and MaxWaiting up (share).
	FairShare bool

	// Mirror copies sealed segments off the volume. With one, each segment is pinned before its name is in sealed/: a
	// refused pin is told to it and holds nothing up. nil: none.
	Mirror Mirror

	// Health is told, at Open and then every other second, what stands in the way of every request: a passed
	// mark, a lost lock, a disk that refuses to seal; nil when nothing does. It must not block.
	Health func(error)

	Holder string // who we are, for the text of the lock; default: process id and host
	Logger *zap.Logger
	Meter  metric.Meter
	Now    func() time.Time
}

// Mirror is told of the segments to copy.
type Mirror interface {
	// Sealed says that a segment is in sealed/, durably, and why it has no pin, nil when it has one. It must not block.
	Sealed(lane segment.Lane, id segment.ID, pin error)
}

func (o *Options) check() error {
	if o.Dir == "" {
		return errors.New("open wal: no directory given; set wal.directory")
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"max_events", int64(o.MaxEvents)},
		{"max_age", int64(o.MaxAge)},
		{"pace_after", int64(o.PaceAfter)},
		{"segment.max_bytes", o.SegmentMaxBytes},
		{"max_bytes", o.MaxBytes},
		{"min_free", o.MinFree},
		{"max_in_flight", o.MaxInFlight},
		{"max_waiting", int64(o.MaxWaiting)},
		{"max_lanes", int64(o.MaxLanes)},
		{"max_tenants", int64(o.MaxTenants)},
	} {
		if f.value < 0 {
			return fmt.Errorf("open wal %s: %s is %d; it must not be negative", o.Dir, f.name, f.value)
		}
	}
	if o.SegmentMaxBytes > MaxSegmentBytes {
		return fmt.Errorf("open wal %s: segment.max_bytes is %d; no reader takes a segment over %d", o.Dir, o.SegmentMaxBytes, MaxSegmentBytes)
	}
	o.setDefaults()
	return nil
}

func (o *Options) setDefaults() {
	o.FS = cmp.Or(o.FS, vfs.OS())
	o.MaxEvents = cmp.Or(o.MaxEvents, defaultMaxEvents)
	o.MaxAge = cmp.Or(o.MaxAge, defaultMaxAge)
	o.SegmentMaxBytes = cmp.Or(o.SegmentMaxBytes, defaultSegmentMaxBytes)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, defaultMaxInFlight)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, defaultMaxWaiting)
	o.MaxLanes = cmp.Or(o.MaxLanes, defaultMaxLanes)
	o.MaxTenants = cmp.Or(o.MaxTenants, defaultMaxTenants)
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	if o.Meter == nil {
		o.Meter = noop.Meter{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Health == nil {
		o.Health = func(error) {}
	}
}

// lockText names this process to whoever is refused.
func (o *Options) lockText() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	text := fmt.Sprintf("host %s, pid %d, since %s", host, os.Getpid(), o.Now().UTC().Format(time.RFC3339))
	if o.Holder != "" {
		text = o.Holder + ", " + text
	}
	return text
}
