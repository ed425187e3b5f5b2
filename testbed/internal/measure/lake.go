package measure

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

// LakeOptions say how to measure the way from a client to the table.
type LakeOptions struct {
	Bin, Config string
	Overlay     []string
	Connections int
	Batch       int
	Rate        float64 // records per second; 0: as fast as answers come
	Duration    time.Duration
	Every       time.Duration // between two points
	// Report, if set, is given each point when it is taken.
	Report func(Point)
}

// Point is what was so at one moment, and since the point before it.
type Point struct {
	Seconds   float64 `json:"seconds"`   // since the load began
	Acked     int     `json:"acked"`     // rows acknowledged so far
	Committed int     `json:"committed"` // rows of the table
	Backlog   int     `json:"backlog"`   // acknowledged and not in the table
	Lag       float64 `json:"lag_s"`     // age of the oldest acknowledged row that is not in the table

	AckRate    float64        `json:"acked_per_second"`
	CommitRate float64        `json:"committed_per_second"`
	Refused    float64        `json:"refused"` // batches that a limit of the log refused
	Ack        load.Quantiles `json:"ack_ms"`
	Gap        float64        `json:"longest_gap_ms"`
	Fresh      load.Quantiles `json:"freshness_ms"` // of the rows that came into the table since the point before

	CPU        float64 `json:"cpu_s"` // of the collector, so far
	RSS        float64 `json:"rss_mib"`
	LogBytes   float64 `json:"log_bytes"`
	TableBytes int64   `json:"table_bytes"` // all below the warehouse, what is replaced or expired included
}

// LakeResult is a whole run.
type LakeResult struct {
	Load          load.Result    `json:"load"`
	Points        []Point        `json:"points"`
	Acked         int            `json:"acked"`
	Rows          int            `json:"rows"` // of the table in the end, counted by the independent reader
	Files         int            `json:"files"`
	Drained       float64        `json:"drained_s"`           // from the end of the load until all rows were in the table
	EndToEnd      float64        `json:"end_to_end_per_s"`    // rows of the table over the load and the drain after it
	Fresh         load.Quantiles `json:"freshness_ms"`        // of all rows
	CPUPerMillion float64        `json:"cpu_s_per_million"`   // of the collector over the load and the drain after it, per million rows of the table
	PeakRSS       float64        `json:"peak_rss_mib"`        // from the start of the load on
	RSS           float64        `json:"rss_mib"`             // in the end
	Growth        float64        `json:"backlog_rows_per_s"`  // what the backlog grew by in the second half of the load
	Steady        float64        `json:"backlog_growth_part"` // the same as a part of the rows acknowledged in that time
}

// Lake loads a collector of its own with fresh data, watches its table meanwhile, and waits until all is drained. It fails when
// a row that was acknowledged is not in the table, or one is there that was not.
func Lake(ctx context.Context, opt LakeOptions) (r LakeResult, err error) {
	p, dir, end, err := fresh(ctx, collector.Options{Bin: opt.Bin, Config: opt.Config, Overlay: opt.Overlay})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, end()) }()
	data := filepath.Join(dir, "data")
	w := &lakeRun{LakeOptions: opt, p: p, data: data, book: &load.Book{}, table: &published{dir: filepath.Join(data, "warehouse", "siglake.db", "events", "metadata")}}
	if err := w.measure(ctx, &r); err != nil {
		return r, fmt.Errorf("%w; last lines:\n%s", err, p.Tail(10))
	}
	if err := stop(ctx, p); err != nil {
		return r, err
	}
	return r, r.count(ctx, data)
}

type lakeRun struct {
	LakeOptions

	p     *collector.Process
	data  string
	book  *load.Book
	table *published

	begin time.Time
	first load.Usage // when the load began
	last  Point
	at    time.Time // of last
	batch float64   // refused, by the counter, at last
}

// drainTimeout bounds the wait for the drain after the load.
const drainTimeout = 15 * time.Minute

func (w *lakeRun) measure(ctx context.Context, r *LakeResult) (err error) {
	if err := load.ResetPeakRSS(w.p.PID()); err != nil {
		return err
	}
	if w.first, err = load.ReadUsage(w.p.PID()); err != nil {
		return err
	}
	watching, unwatch := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer unwatch()
	watch.Go(func() { w.table.watch(watching) })
	w.begin, w.at = time.Now(), time.Now()
	loaded := make(chan error, 1)
	watch.Go(func() {
		res, err := load.Run(watching, load.Plan{
			Endpoint:    load.Endpoint{Protocol: "grpc", Address: w.p.GRPC},
			Shape:       load.Shape{Signal: "logs", Batch: w.Batch, Resources: 4, Run: "bench"},
			Connections: w.Connections, Rate: w.Rate, Duration: w.Duration, Book: w.book,
		})
		r.Load = res
		loaded <- err
	})
	if err := w.points(ctx, loaded, r); err != nil {
		return err
	}
	r.Acked = w.book.Acked()
	r.grow(w.Duration)
	ended := time.Now()
	wait, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := waldir.WaitDrained(wait, filepath.Join(w.data, "wal")); err != nil {
		return err
	}
	r.Drained = time.Since(ended).Seconds()
	w.table.look()
	_, committed := w.table.now()
	if committed == 0 {
		return fmt.Errorf("no metadata with a row in %s", w.table.dir)
	}
	r.EndToEnd = float64(committed) / time.Since(w.begin).Seconds()
	r.Fresh = load.QuantilesOf(freshness(w.book.Acks(), w.Batch, w.table.all(), time.Time{}))
	return w.usage(r, committed)
}

// points takes one each Every until the load has ended.
func (w *lakeRun) points(ctx context.Context, loaded <-chan error, r *LakeResult) error {
	tick := time.NewTicker(w.Every)
	defer tick.Stop()
	for {
		var end bool
		select {
		case err := <-loaded:
			if err != nil {
				return err
			}
			end = true
		case <-w.p.Done():
			return errors.New("the collector ended")
		case <-tick.C:
		}
		if end && time.Since(w.at) < w.Every/2 {
			return nil // a point over so short a time says nothing
		}
		point, err := w.point(ctx)
		if err != nil {
			return err
		}
		r.Points = append(r.Points, point)
		if w.Report != nil {
			w.Report(point)
		}
		if end {
			return nil
		}
	}
}

func (w *lakeRun) point(ctx context.Context) (p Point, err error) {
	all, err := Samples(ctx, w.p.Metrics)
	if err != nil {
		return p, err
	}
	usage, err := load.ReadUsage(w.p.PID())
	if err != nil {
		return p, err
	}
	rss, err := load.RSS(w.p.PID())
	if err != nil {
		return p, err
	}
	acks, commits := w.book.Acks(), w.table.all()
	now, since := time.Now(), w.at
	over := now.Sub(since).Seconds()
	p.Seconds = now.Sub(w.begin).Seconds()
	p.Acked = len(acks) * w.Batch
	_, p.Committed = w.table.now()
	p.Backlog = p.Acked - p.Committed
	if i := p.Committed / w.Batch; i < len(acks) {
		p.Lag = now.Sub(acks[i].At).Seconds()
	}
	p.AckRate, p.CommitRate = float64(p.Acked-w.last.Acked)/over, float64(p.Committed-w.last.Committed)/over
	p.Refused = all["siglake_wal_refused_total"] - w.batch
	p.Ack, p.Gap = load.AcksSince(acks, since, now)
	p.Fresh = load.QuantilesOf(freshness(acks, w.Batch, commits, since))
	p.CPU = (usage.CPU - w.first.CPU).Seconds()
	p.RSS = float64(rss) / (1 << 20)
	p.LogBytes = all["siglake_wal_used_bytes"]
	p.TableBytes = sizeOf(filepath.Join(w.data, "warehouse"))
	w.last, w.at, w.batch = p, now, all["siglake_wal_refused_total"]
	return p, nil
}

func (w *lakeRun) usage(r *LakeResult, committed int) error {
	usage, err := load.ReadUsage(w.p.PID())
	if err != nil {
		return err
	}
	rss, err := load.RSS(w.p.PID())
	if err != nil {
		return err
	}
	peak, err := load.PeakRSS(w.p.PID())
	if err != nil {
		return err
	}
	r.RSS, r.PeakRSS = float64(rss)/(1<<20), float64(peak)/(1<<20)
	r.CPUPerMillion = (usage.CPU - w.first.CPU).Seconds() / float64(committed) * 1e6
	return nil
}

// grow compares the backlog at the end with that of the middle of the load.
func (r *LakeResult) grow(d time.Duration) {
	for i, p := range r.Points {
		last := r.Points[len(r.Points)-1]
		if p.Seconds < d.Seconds()/2 || i == len(r.Points)-1 {
			continue
		}
		r.Growth = float64(last.Backlog-p.Backlog) / (last.Seconds - p.Seconds)
		r.Steady = float64(last.Backlog-p.Backlog) / float64(last.Acked-p.Acked)
		return
	}
}

// count compares the table with what was acknowledged.
func (r *LakeResult) count(ctx context.Context, data string) error {
	reader, err := tables.Open(data)
	if err != nil {
		return err
	}
	s, err := reader.Summarise(ctx, "siglake.events")
	if err = errors.Join(err, reader.Close()); err != nil {
		return err
	}
	r.Rows, r.Files = s.Count(), len(s.Files)
	unknown := r.Load.Failed - r.Load.Errors["ResourceExhausted"] // stored or not: nobody was told
	if r.Rows < r.Acked || r.Rows > r.Acked && unknown == 0 {
		return fmt.Errorf("%d rows are in the table, %d were acknowledged (%d requests failed without having been refused)", r.Rows, r.Acked, unknown)
	}
	return nil
}
