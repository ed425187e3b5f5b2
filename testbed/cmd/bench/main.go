// Command bench measures how fast the built collector acknowledges and drains, beside the otlp → nop pipeline of the
// same binary as the ceiling of any collector. It prints medians as a Markdown table and asserts nothing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/measure"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type settings struct {
	runs     int
	rate     float64
	duration time.Duration
	warmup   time.Duration
	shapes   []shape
	only     string
	output   string
	mirror   bool
	lake     bool

	maintenance string // of the compactor, with -lake
	overlay     string // configuration over the shipped one, with -lake
}

type shape struct{ connections, batch int }

func (s shape) String() string { return fmt.Sprintf("%d × %d", s.connections, s.batch) }

func parse() (s settings, err error) {
	shapes := flag.String("shapes", "", "connections x records per request, separated by commas; by default 64x10,16x100,8x500, with -lake 8x500")
	flag.Float64Var(&s.rate, "rate", 0, "records per second, for the latency at a load that is not saturating; 0: as fast as answers come")
	flag.IntVar(&s.runs, "runs", 5, "runs of everything; the table has medians")
	flag.DurationVar(&s.duration, "duration", 5*time.Second, "measured time of a load")
	flag.DurationVar(&s.warmup, "warmup", time.Second, "time before it that is left out")
	flag.StringVar(&s.only, "only", "", "only the servers, or with -mirror the parts, whose name holds this")
	flag.StringVar(&s.output, "output", "", "file for every single measurement as JSON")
	flag.BoolVar(&s.mirror, "mirror", false, "what the mirror costs, and what it bears: against a store that discards and against an S3 server")
	flag.BoolVar(&s.lake, "lake", false, "the way to the table: one load of the shipped configuration, and the drain after it")
	flag.StringVar(&s.maintenance, "maintenance", "auto", "with -lake: maintenance of the tables, auto or off")
	flag.StringVar(&s.overlay, "overlay", "", "with -lake: YAML over the shipped configuration, such as extensions: {lakecompactor: {snapshots: {retain_last: 10, interval: 5s}}}")
	flag.Parse()
	if s.lake && s.mirror {
		return s, errors.New("-lake and -mirror measure different things: leave one out")
	}
	if *shapes == "" {
		*shapes = "64x10,16x100,8x500"
		if s.lake {
			*shapes = "8x500"
		}
	}
	if s.mirror && (s.output != "" || s.rate != 0) {
		return s, errors.New("-mirror has loads of its own and prints tables only: leave out -output and -rate")
	}
	for _, text := range strings.Split(*shapes, ",") {
		var one shape
		if _, err := fmt.Sscanf(text, "%dx%d", &one.connections, &one.batch); err != nil {
			return s, fmt.Errorf("read -shapes %q: want such as 8x500: %w", text, err)
		}
		s.shapes = append(s.shapes, one)
	}
	return s, nil
}

type key struct {
	server string
	shape  shape
}

type single struct {
	Server string          `json:"server"`
	Shape  string          `json:"shape"`
	Run    int             `json:"run"`
	N      measure.Numbers `json:"numbers"`
}

func run(ctx context.Context) (err error) {
	s, err := parse()
	if err != nil {
		return err
	}
	bin, err := testenv.Collector()
	if err != nil {
		return err
	}
	if s.mirror {
		return runMirror(ctx, bin, s)
	}
	if s.lake {
		return runLake(ctx, bin, s)
	}
	dir, err := os.MkdirTemp("", "siglake-bench-config-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sink, hangUp, err := silentSink()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hangUp()) }()
	all, config, err := servers(dir, sink)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(x measure.Server) bool { return !strings.Contains(x.Name, s.only) })
	began := loadAverage()
	found := map[key][]measure.Numbers{}
	var singles []single
	for r := range s.runs {
		for i := range all {
			server := all[(i+r)%len(all)] // nobody is always first
			for _, sh := range s.shapes {
				n, err := measure.Once(ctx, server, measure.Options{
					Bin: bin, Connections: sh.connections, Batch: sh.batch, Rate: s.rate, Warmup: s.warmup, Duration: s.duration,
					DrainConfig: config, DrainOverlay: []string{atOnce},
				})
				if err != nil {
					return err
				}
				fmt.Fprintf(os.Stderr, "run %d of %d: %s, %s: %.0f records/s\n", r+1, s.runs, server.Name, sh, n.Rate)
				found[key{server.Name, sh}] = append(found[key{server.Name, sh}], n)
				singles = append(singles, single{server.Name, sh.String(), r + 1, n})
			}
		}
	}
	fmt.Printf("%s, %d cores, medians of %d runs of %s, client on the same cores; load average %s at the start, %s at the end\n",
		time.Now().UTC().Format("2006-01-02"), runtime.NumCPU(), s.runs, s.duration, began, loadAverage())
	for _, sh := range s.shapes {
		table(os.Stdout, sh, s.rate, all, found)
	}
	if s.output == "" {
		return nil
	}
	text, err := json.MarshalIndent(singles, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.output, append(text, '\n'), 0o600)
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// table prints the medians of one shape of load.
func table(out io.Writer, sh shape, rate float64, all []measure.Server, found map[key][]measure.Numbers) {
	pace := "as fast as answers come"
	if rate > 0 {
		pace = fmt.Sprintf("%.0f records/s due", rate)
	}
	fmt.Fprintf(out, "\n%d connections × %d log records of about 500 bytes, OTLP/gRPC, %s\n\n", sh.connections, sh.batch, pace)
	fmt.Fprintln(out, "| server | acked records/s | × nop | ack p50 / p99 / p99.9 ms | longest gap ms | fsyncs/s | CPU s per million | written B/record | peak RSS MiB | drained records/s | left to drain after the load s |")
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	ceiling := median(found[key{"otlp → nop", sh}], func(n measure.Numbers) float64 { return n.Rate })
	for _, server := range all {
		n := found[key{server.Name, sh}]
		m := func(f func(measure.Numbers) float64) float64 { return median(n, f) }
		rate := m(func(n measure.Numbers) float64 { return n.Rate })
		share, drain, lag, syncs := "–", "–", "–", "–"
		if ceiling > 0 {
			share = fmt.Sprintf("%.2f", rate/ceiling)
		}
		if server.Stores {
			syncs = fmt.Sprintf("%.0f", m(func(n measure.Numbers) float64 { return n.Fsyncs }))
		}
		if server.Drains {
			drain = fmt.Sprintf("%.0f", m(func(n measure.Numbers) float64 { return n.Drained }))
			lag = fmt.Sprintf("%.1f", m(func(n measure.Numbers) float64 { return n.Lag }))
		}
		fmt.Fprintf(out, "| %s | %.0f | %s | %.2f / %.2f / %.2f | %.0f | %s | %.2f | %.0f | %.0f | %s | %s |\n", server.Name, rate, share,
			m(func(n measure.Numbers) float64 { return n.P50 }), m(func(n measure.Numbers) float64 { return n.P99 }), m(func(n measure.Numbers) float64 { return n.P999 }),
			m(func(n measure.Numbers) float64 { return n.Gap }), syncs, m(func(n measure.Numbers) float64 { return n.CPUPerMillion }),
			m(func(n measure.Numbers) float64 { return n.Written }), m(func(n measure.Numbers) float64 { return n.RSS }), drain, lag)
	}
	for _, server := range all {
		n := found[key{server.Name, sh}]
		if !server.Stores || server.Drains {
			continue
		}
		fmt.Fprintf(out, "\nThe drain alone after %s: %.0f records/s, %.2f CPU s per million, peak RSS %.0f MiB (start of the process included)\n", server.Name,
			median(n, func(n measure.Numbers) float64 { return n.DrainRate }), median(n, func(n measure.Numbers) float64 { return n.DrainCPUPerMillion }),
			median(n, func(n measure.Numbers) float64 { return n.DrainRSS }))
	}
}

func median(n []measure.Numbers, f func(measure.Numbers) float64) float64 {
	if len(n) == 0 {
		return 0
	}
	v := make([]float64, len(n))
	for i := range n {
		v[i] = f(n[i])
	}
	slices.Sort(v)
	if len(v)%2 == 1 {
		return v[len(v)/2]
	}
	return (v[len(v)/2-1] + v[len(v)/2]) / 2
}
