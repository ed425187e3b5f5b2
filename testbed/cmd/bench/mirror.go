package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/drill"
	"github.com/siglakecol/siglakecol/testbed/internal/load"
	"github.com/siglakecol/siglakecol/testbed/internal/measure"
	"github.com/siglakecol/siglakecol/testbed/internal/services"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

// The loads. A segment has 4,096 rows unless said.
const (
	mirrorRate    = 20_000 // records/s, of the latency and of the seals
	mirroredRate  = 2_000
	sealsRows     = 300 // rows of a segment: three requests, 66 seals a second
	sealsDuration = time.Minute
)

const (
	nowhere  = "off"
	discards = "on, a store that discards"
	serves   = "on, S3 server"
)

// arm is one way to run.
type arm struct {
	name string
	at   *services.S3 // nil: no mirror
}

// taken is one measurement of an arm.
type taken struct {
	n      measure.Numbers
	store  float64 // CPU s per million records of the S3 server
	upload float64 // ms of an upload with its confirmation, the mean
	depth  float64 // the longest queue of segments that wait or are on their way
	seals  float64 // uploads confirmed a second
}

type mirrorBench struct {
	bin, config string
	settings    settings
	discard, s3 *services.S3
}

func runMirror(ctx context.Context, bin string, s settings) (err error) {
	config, err := testenv.DefaultConfig()
	if err != nil {
		return err
	}
	discard, hangUp, err := startDiscard()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hangUp()) }()
	s3, err := services.StartS3()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s3.Close()) }()
	b := &mirrorBench{bin: bin, config: config, settings: s, discard: discard, s3: s3}
	began := loadAverage()
	fmt.Printf("%s, %d cores, client and S3 server (versitygw, on the same disk) on the same cores; load average %s at the start\n",
		time.Now().UTC().Format("2006-01-02"), runtime.NumCPU(), began)
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"latency", b.latency}, {"recovery", b.recovery}, {"saturated", b.saturated}, {"mirrored", b.mirrored}, {"seals", b.seals}} {
		if !strings.Contains(part.name, s.only) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("\nload average %s at the end\n", loadAverage())
	return nil
}

// once measures an arm.
func (b *mirrorBench) once(ctx context.Context, a arm, mode string, opt measure.Options, overlay ...string) (t taken, err error) {
	opt.Bin, opt.Warmup = b.bin, b.settings.warmup
	opt.Watch = t.watch
	if a.at != nil {
		overlay = append(overlay, drill.Mirror(a.at))
	}
	server := measure.Server{Name: "mirror " + a.name, Mode: mode, Config: b.config, Overlay: append(overlay, writeOnly), Stores: true}
	before, err := load.ReadUsage(b.s3.PID())
	if err != nil {
		return t, err
	}
	if t.n, err = measure.Once(ctx, server, opt); err != nil {
		return t, err
	}
	after, err := load.ReadUsage(b.s3.PID())
	if a.at == b.s3 {
		t.store = (after.CPU - before.CPU).Seconds() / t.n.Acked * 1e6
	}
	fmt.Fprintf(os.Stderr, "mirror %s: %.0f records/s, p99 %.2f ms, %.2f CPU s per million\n", a.name, t.n.Rate, t.n.P99, t.n.CPUPerMillion)
	return t, err
}

// watchEvery is seldom: a look costs the collector milliseconds, with a mirror or without.
const watchEvery = 2 * time.Second

// watch looks at the mirror's metrics until ctx ends.
func (t *taken) watch(ctx context.Context, p *collector.Process) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	begin := time.Now()
	for {
		all, err := measure.Samples(ctx, p.Metrics)
		if n := all["siglake_wal_mirror_upload_duration_seconds_count"]; err == nil && n > 0 {
			t.depth = max(t.depth, all["siglake_wal_mirror_queue_depth"])
			t.upload = all["siglake_wal_mirror_upload_duration_seconds_sum"] / n * 1000
			t.seals = n / time.Since(begin).Seconds()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// turns measures arms in turn, and nobody is always first.
func (b *mirrorBench) turns(ctx context.Context, arms []arm, mode string, opt measure.Options) (map[string][]taken, error) {
	found := map[string][]taken{}
	for r := range b.settings.runs {
		for i := range arms {
			a := arms[(i+r)%len(arms)]
			t, err := b.once(ctx, a, mode, opt)
			if err != nil {
				return nil, err
			}
			found[a.name] = append(found[a.name], t)
		}
	}
	return found, nil
}

// of is the median of a figure.
func of(all []taken, f func(taken) float64) float64 {
	v := make([]measure.Numbers, len(all))
	for i, t := range all {
		v[i].Rate = f(t)
	}
	return median(v, func(n measure.Numbers) float64 { return n.Rate })
}

// dearer is the median of what each turn's figure is above that of its turn without a mirror, in per cent.
func dearer(all, off []taken, f func(taken) float64) string {
	var ratios []taken
	for i := range all {
		ratios = append(ratios, taken{store: (f(all[i])/f(off[i]) - 1) * 100})
	}
	return fmt.Sprintf("%+.1f %%", of(ratios, func(t taken) float64 { return t.store }))
}

func (b *mirrorBench) table(arms []arm, found map[string][]taken) {
	fmt.Println("| mirror | acked records/s | ack p50 / p99 / p99.9 ms | p99 beside off, median of pairs | CPU s per million | beside off | the S3 server's | an upload ms | longest queue |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	off := found[nowhere]
	p99, cpu := func(t taken) float64 { return t.n.P99 }, func(t taken) float64 { return t.n.CPUPerMillion }
	for _, a := range arms {
		all := found[a.name]
		line := []string{
			a.name, fmt.Sprintf("%.0f", of(all, func(t taken) float64 { return t.n.Rate })),
			fmt.Sprintf("%.2f / %.2f / %.2f", of(all, func(t taken) float64 { return t.n.P50 }), of(all, p99), of(all, func(t taken) float64 { return t.n.P999 })),
			dearer(all, off, p99), fmt.Sprintf("%.2f", of(all, cpu)), dearer(all, off, cpu),
			fmt.Sprintf("%.2f", of(all, func(t taken) float64 { return t.store })),
			fmt.Sprintf("%.1f", of(all, func(t taken) float64 { return t.upload })), fmt.Sprintf("%.0f", of(all, func(t taken) float64 { return t.depth })),
		}
		fmt.Println("| " + strings.Join(line, " | ") + " |")
	}
}

// latency: what the mirror costs a load that is not saturating.
func (b *mirrorBench) latency(ctx context.Context) error {
	arms := []arm{{nowhere, nil}, {discards, b.discard}, {serves, b.s3}}
	found, err := b.turns(ctx, arms, "wait_for", measure.Options{Connections: 16, Batch: 100, Rate: mirrorRate, Duration: b.settings.duration})
	if err != nil {
		return err
	}
	fmt.Printf("\n%d records/s, 16 × 100, wait_for, medians of %d turns of %s\n\n", mirrorRate, b.settings.runs, b.settings.duration)
	b.table(arms, found)
	return nil
}

// saturated: as fast as answers come.
func (b *mirrorBench) saturated(ctx context.Context) error {
	arms := []arm{{nowhere, nil}, {discards, b.discard}}
	found, err := b.turns(ctx, arms, "wait_for", measure.Options{Connections: 8, Batch: 500, Duration: b.settings.duration})
	if err != nil {
		return err
	}
	fmt.Printf("\nSaturated, 8 × 500, wait_for, medians of %d turns of %s\n\n", b.settings.runs, b.settings.duration)
	b.table(arms, found)
	return nil
}

// mirrored: what an answer under mirrored takes.
func (b *mirrorBench) mirrored(ctx context.Context) error {
	fmt.Printf("\nUnder mirrored, %d records/s in requests of 10 over 64 connections\n\n", mirroredRate)
	fmt.Println("| store | ack p50 / p99 / p99.9 ms | objects a second | requests an object |")
	fmt.Println("|---|--:|--:|--:|")
	for _, a := range []arm{{"discards", b.discard}, {"S3 server", b.s3}} {
		t, err := b.once(ctx, a, "mirrored", measure.Options{Connections: 64, Batch: 10, Rate: mirroredRate, Duration: b.settings.duration})
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %.1f / %.1f / %.1f | %.1f | %.0f |\n", a.name, t.n.P50, t.n.P99, t.n.P999, t.seals, mirroredRate/10/t.seals)
	}
	return nil
}

// seals: many small segments.
func (b *mirrorBench) seals(ctx context.Context) error {
	small := fmt.Sprintf("exporters: {siglake: {wal: {segment: {max_events: %d}}}}", sealsRows)
	t, err := b.once(ctx, arm{serves, b.s3}, "wait_for", measure.Options{Connections: 16, Batch: 100, Rate: mirrorRate, Duration: sealsDuration}, small)
	if err != nil {
		return err
	}
	fmt.Printf("\nSegments of %d rows at %d records/s for %s, S3 server: %.0f copies confirmed a second, an upload %.1f ms, longest queue %.0f segments; ack p50 %.2f, p99 %.2f ms; %.2f CPU s per million, of the S3 server %.2f\n",
		sealsRows, mirrorRate, sealsDuration, t.seals, t.upload, t.depth, t.n.P50, t.n.P99, t.n.CPUPerMillion, t.store)
	return nil
}
