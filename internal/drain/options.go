package drain

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"

	"github.com/siglakecol/siglakecol/internal/lake"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

const (
	// lanesAtOnce bounds how many batches are read and committed at a time. More lanes than cores help
	// because a commit waits for the disk most of its time; four keep a stuck catalog from taking all.
	lanesAtOnce = 4

	// scansAtOnce bounds how many lanes are listed at a time: each is a thread inside the kernel.
	scansAtOnce = 8

	// maxBatch is the most segments one commit takes: its ids go into one table property.
	maxBatch = 1024

	// maxReads is how often a segment is read before it is set aside in poison.
	maxReads = 3

	// outage is how many commits of a lane fail in a row before the table is at fault. A segment that no commit
	// accepts makes fewer: what is not in its batch gets in.
	outage = 3

	// maxBackoff bounds the wait after failures, so that the end of an outage is noticed soon.
	maxBackoff = 30 * time.Second

	// wakePoll is how often drain.wake is looked at: one stat.
	wakePoll = 50 * time.Millisecond

	// standbyPoll is how often a standby tries the lock and a waiting drain the root.
	standbyPoll = 250 * time.Millisecond

	// clockJump is how far wall clock and monotonic clock may part between two looks at committed before
	// the ages there are no longer believed.
	clockJump = time.Hour
)

// Options says what to drain and how. The zero value of a field means its default, in parentheses.
type Options struct {
	FS  vfs.FS // file system of the root
	WAL string // root directory of the write-ahead log

	// Lake is where the tables are. Or OpenLake opens it, as often as it takes, and Run closes what it opened:
	// then a catalog that is away at the start is no more than one that goes away later.
	Lake     *lake.Lake
	OpenLake func(context.Context) (*lake.Lake, error)
	// Catalog stands in for both in tests that simulate a catalog.
	Catalog Catalog
	// Beside runs once, in its own goroutine, from the time that the drain holds drain.lock and the lake is open until
	// ctx ends: work on the tables that one process at a time is to do. Run awaits it.
	Beside func(ctx context.Context, l *lake.Lake)

	// Drop is what Beside has DropOldDays do, if anything. A committed segment may leave without rows of the days that this
	// deletes.
	Drop lake.Retention

	// Behind is told after each look at all lanes whether one has a segment that should have been committed behindAfter
	// ago, and no trouble that explains it. Nil: nobody wants to know.
	Behind func(behind bool)

	GateBytes        int64         // a lane is committed when its sealed segments reach this many bytes (32 MiB)
	GateAge          time.Duration // … or its oldest one this age (10 s)
	Poll             time.Duration // how often lanes are looked at (1 s)
	MaxBytesInFlight int64         // bytes of segments being drained at a time (64 MiB)
	Retain           time.Duration // how long a committed segment stays, from its mark on (60 s)
	RetainPartial    time.Duration // the same for one that a recovery sealed (24 h)
	Grace            time.Duration // how long a commit in hand may go on after ctx ended (20 s)
	StallAfter       time.Duration // how long a lane may be at one step until Status hears of it (10 min)

	Logger *zap.Logger
	Meter  metric.Meter
	Now    func() time.Time
	Holder string // text in the lock file for whoever is refused

	// Status hears what keeps the drain from its work, in words for an operator, and nil when it works
	// again. Called on change only, never from two goroutines at once.
	Status func(error)
}

func (o Options) withDefaults() (Options, error) {
	if o.FS == nil {
		return o, errors.New("drain: Options.FS is not set")
	}
	if o.WAL == "" {
		return o, errors.New("drain: Options.WAL is not set")
	}
	setDefault(&o.GateBytes, 32<<20)
	setDefault(&o.GateAge, 10*time.Second)
	setDefault(&o.Poll, time.Second)
	setDefault(&o.MaxBytesInFlight, 64<<20)
	setDefault(&o.Retain, time.Minute)
	setDefault(&o.RetainPartial, 24*time.Hour)
	setDefault(&o.Grace, 20*time.Second)
	setDefault(&o.StallAfter, 10*time.Minute)
	setDefault(&o.Holder, "siglake drain")
	if o.Behind == nil {
		o.Behind = func(bool) {}
	}
	if o.Lake == nil && o.OpenLake == nil && o.Catalog == nil {
		return o, errors.New("drain: neither Options.Lake nor Options.OpenLake is set")
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Meter == nil {
		o.Meter = noop.Meter{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Status == nil {
		o.Status = func(error) {}
	}
	return o, nil
}

// catalog is what the options name, and how to give it back.
func (o Options) catalog() (c Catalog, done func() error) {
	switch {
	case o.Catalog != nil:
		return o.Catalog, func() error { return nil }
	case o.Lake != nil:
		return lakeCatalog{o.Lake}, func() error { return nil }
	default:
		open := &opener{open: o.OpenLake}
		return open, open.close
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
