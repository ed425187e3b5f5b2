package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

// Server is one way to run the binary.
type Server struct {
	Name    string
	Mode    string // commit mode to ask for
	Drains  bool   // the compactor runs in the same process
	Stores  bool   // there is a log of ours at all
	Full    bool   // ends with a backlog that it would deliver before it stops: it is killed
	Config  string
	Overlay []string
}

// Numbers are the figures of one measurement.
type Numbers struct {
	Acked         float64 `json:"acked_records"` // the warm-up included
	Rate          float64 `json:"acked_records_per_second"`
	P50           float64 `json:"ack_p50_ms"`
	P99           float64 `json:"ack_p99_ms"`
	P999          float64 `json:"ack_p99_9_ms"`
	Gap           float64 `json:"longest_gap_without_ack_ms"`
	Fsyncs        float64 `json:"fsyncs_per_second"`
	CPUPerMillion float64 `json:"cpu_seconds_per_million"`
	RSS           float64 `json:"peak_rss_mib"`
	Written       float64 `json:"written_bytes_per_record"`
	Drained       float64 `json:"drained_records_per_second"` // over the load and the time until nothing was left
	Lag           float64 `json:"seconds_to_drain_after_load"`
	// Of a drain alone, after a load without one:
	DrainRate          float64 `json:"drain_only_records_per_second"`
	DrainCPUPerMillion float64 `json:"drain_only_cpu_seconds_per_million"`
	DrainRSS           float64 `json:"drain_only_peak_rss_mib"`
}

// Options say how to measure.
type Options struct {
	Bin          string
	Connections  int
	Batch        int
	Rate         float64 // records per second; 0: as fast as answers come
	Warmup       time.Duration
	Duration     time.Duration
	DrainConfig  string // configuration to drain with after a load without a drain; empty: do not
	DrainOverlay []string
	// Watch, if set, runs beside the load, and is to end with its ctx.
	Watch func(context.Context, *collector.Process)
}

// Once measures one server with fresh data. The data is removed afterwards.
func Once(ctx context.Context, s Server, opt Options) (n Numbers, err error) {
	p, dir, end, err := fresh(ctx, collector.Options{Bin: opt.Bin, Config: s.Config, Overlay: s.Overlay})
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, end()) }()
	data := filepath.Join(dir, "data")
	acked, err := underLoad(ctx, p, s, opt, data, &n)
	if err != nil {
		return n, fmt.Errorf("%s: %w; last lines:\n%s", s.Name, err, p.Tail(10))
	}
	if s.Full {
		return n, nil // killed by the deferred call
	}
	if err := stop(ctx, p); err != nil {
		return n, fmt.Errorf("%s: %w", s.Name, err)
	}
	if s.Stores && !s.Drains && opt.DrainConfig != "" {
		return n, drainAlone(ctx, opt, dir, data, acked, &n)
	}
	return n, nil
}

// fresh starts a collector with data in dir/data, a directory of its own. end kills it and removes dir.
func fresh(ctx context.Context, opt collector.Options) (p *collector.Process, dir string, end func() error, err error) {
	if dir, err = os.MkdirTemp("", "siglake-bench-"); err != nil {
		return nil, "", nil, err
	}
	opt.Data = filepath.Join(dir, "data")
	if err = os.Mkdir(opt.Data, 0o750); err == nil {
		p, err = start(ctx, opt, filepath.Join(dir, "collector.log"))
	}
	if err != nil {
		return nil, "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, dir, func() error {
		p.Kill()
		return os.RemoveAll(dir)
	}, nil
}

// stop ends a collector in order.
func stop(ctx context.Context, p *collector.Process) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if code, _, err := p.Stop(ctx); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("exit code %d", code), err)
	}
	return nil
}

func start(ctx context.Context, opt collector.Options, log string) (*collector.Process, error) {
	p, err := collector.Start(opt, log)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, collector.StartTimeout)
	defer cancel()
	if err := p.WaitHealthy(wait); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

func underLoad(ctx context.Context, p *collector.Process, s Server, opt Options, data string, n *Numbers) (acked float64, err error) {
	if err := load.ResetPeakRSS(p.PID()); err != nil {
		return 0, err
	}
	before, err := load.ReadUsage(p.PID())
	if err != nil {
		return 0, err
	}
	syncs, err := Sum(ctx, p.Metrics, IsFsync)
	if err != nil {
		return 0, err
	}
	book := &load.Book{}
	watching, unwatch := context.WithCancel(ctx)
	var watch sync.WaitGroup
	if opt.Watch != nil {
		watch.Go(func() { opt.Watch(watching, p) })
	}
	defer watch.Wait()
	defer unwatch()
	begin := time.Now()
	res, err := load.Run(ctx, load.Plan{
		Endpoint:    load.Endpoint{Protocol: "grpc", Address: p.GRPC, Mode: s.Mode},
		Shape:       load.Shape{Signal: "logs", Batch: opt.Batch, Resources: 4, Run: "bench"},
		Connections: opt.Connections, Rate: opt.Rate, Duration: opt.Warmup + opt.Duration, Warmup: opt.Warmup, Book: book,
	})
	if err = errors.Join(err, res.Err()); err != nil {
		return 0, err
	}
	took := time.Since(begin).Seconds()
	after, err := load.ReadUsage(p.PID())
	if err != nil {
		return 0, err
	}
	syncsAfter, err := Sum(ctx, p.Metrics, IsFsync)
	if err != nil {
		return 0, err
	}
	acked = float64(book.Acked())
	n.Acked = acked
	n.Rate, n.P50, n.P99, n.P999, n.Gap = res.Rate, res.Latency.P50, res.Latency.P99, res.Latency.P999, res.LongestGap
	n.Fsyncs = (syncsAfter - syncs) / took
	n.CPUPerMillion = (after.CPU - before.CPU).Seconds() / acked * 1e6
	n.Written = float64(after.WrittenBytes-before.WrittenBytes) / acked
	if s.Drains {
		end := time.Now()
		if err := drained(ctx, data); err != nil {
			return 0, err
		}
		n.Lag = time.Since(end).Seconds()
		n.Drained = acked / time.Since(begin).Seconds()
	}
	peak, err := load.PeakRSS(p.PID())
	n.RSS = float64(peak) / (1 << 20)
	return acked, err
}

func drained(ctx context.Context, data string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return waldir.WaitDrained(ctx, filepath.Join(data, "wal"))
}

// drainAlone starts the collector again on what a load left behind, without traffic.
func drainAlone(ctx context.Context, opt Options, dir, data string, records float64, n *Numbers) error {
	begin := time.Now()
	p, err := start(ctx, collector.Options{Bin: opt.Bin, Config: opt.DrainConfig, Overlay: opt.DrainOverlay, Data: data}, filepath.Join(dir, "drain.log"))
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := drained(ctx, data); err != nil {
		return fmt.Errorf("%w; last lines:\n%s", err, p.Tail(10))
	}
	n.DrainRate = records / time.Since(begin).Seconds()
	u, err := load.ReadUsage(p.PID())
	if err != nil {
		return err
	}
	n.DrainCPUPerMillion = u.CPU.Seconds() / records * 1e6
	peak, err := load.PeakRSS(p.PID())
	n.DrainRSS = float64(peak) / (1 << 20)
	return err
}
