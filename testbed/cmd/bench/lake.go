package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/measure"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
)

// lakeEvery is the time between two lines.
const lakeEvery = 10 * time.Second

// runLake measures one load of the shipped configuration to the table, and the drain after it.
func runLake(ctx context.Context, bin string, s settings) error {
	if len(s.shapes) != 1 {
		return errors.New("-lake takes one shape of load: give -shapes one, such as 8x500")
	}
	config, err := testenv.DefaultConfig()
	if err != nil {
		return err
	}
	sh, began := s.shapes[0], loadAverage()
	pace := "as fast as answers come"
	if s.rate > 0 {
		pace = fmt.Sprintf("%.0f records/s due", s.rate)
	}
	fmt.Printf("%s, %d cores, %s × log records of about 500 bytes, OTLP/gRPC, %s, for %s; shipped configuration, maintenance %s; client on the same cores\n\n",
		time.Now().UTC().Format("2006-01-02"), runtime.NumCPU(), sh, pace, s.duration, s.maintenance)
	overlay := []string{fmt.Sprintf("extensions: {lakecompactor: {maintenance: %q}}", s.maintenance)}
	if s.overlay != "" {
		overlay = append(overlay, s.overlay)
		fmt.Printf("over it: %s\n\n", s.overlay)
	}
	fmt.Println("| s | acked/s | committed/s | refused | backlog rows | lag s | ack p50 / p99 / max ms | longest gap ms | freshness p50 / p99 s | RSS MiB | CPU s | log MiB | warehouse MiB |")
	fmt.Println("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	r, err := measure.Lake(ctx, measure.LakeOptions{
		Bin: bin, Config: config, Overlay: overlay,
		Connections: sh.connections, Batch: sh.batch, Rate: s.rate, Duration: s.duration, Every: lakeEvery, Report: showPoint,
	})
	if err != nil {
		return err
	}
	showLake(os.Stdout, r)
	fmt.Printf("\nload average %s at the start, %s at the end\n", began, loadAverage())
	if s.output == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.output, append(text, '\n'), 0o600)
}

func showPoint(p measure.Point) {
	fmt.Printf("| %.0f | %.0f | %.0f | %.0f | %d | %.1f | %.1f / %.1f / %.0f | %.0f | %.1f / %.1f | %.0f | %.0f | %.0f | %.0f |\n",
		p.Seconds, p.AckRate, p.CommitRate, p.Refused, p.Backlog, p.Lag, p.Ack.P50, p.Ack.P99, p.Ack.Max, p.Gap,
		p.Fresh.P50/1000, p.Fresh.P99/1000, p.RSS, p.CPU, p.LogBytes/(1<<20), float64(p.TableBytes)/(1<<20))
}

func showLake(out io.Writer, r measure.LakeResult) {
	fmt.Fprint(out, "\nbacklog at each minute:")
	minute := 1.0
	for _, p := range r.Points {
		if p.Seconds >= minute*60-1 {
			fmt.Fprintf(out, " %d", p.Backlog)
			minute++
		}
	}
	fmt.Fprintf(out, "\nbacklog in the second half of the load: %+.0f rows/s, %+.1f %% of what was acknowledged\n", r.Growth, r.Steady*100)
	fmt.Fprintf(out, "acknowledged       %d rows, %.0f/s; p50 %.1f, p99 %.1f, max %.0f ms; longest gap %.0f ms\n",
		r.Acked, float64(r.Acked)/r.Load.Seconds, r.Load.Latency.P50, r.Load.Latency.P99, r.Load.Latency.Max, r.Load.LongestGap)
	fmt.Fprintf(out, "requests failed    %d %v\n", r.Load.Failed, r.Load.Errors)
	fmt.Fprintf(out, "end to end         %.0f rows/s, the drain after the load included (%.1f s)\n", r.EndToEnd, r.Drained)
	fmt.Fprintf(out, "freshness          p50 %.2f, p99 %.2f, max %.2f s from the answer until the table had the row\n", r.Fresh.P50/1000, r.Fresh.P99/1000, r.Fresh.Max/1000)
	fmt.Fprintf(out, "CPU                %.2f s per million rows of the table\n", r.CPUPerMillion)
	fmt.Fprintf(out, "memory             %.0f MiB at most, %.0f in the end\n", r.PeakRSS, r.RSS)
	fmt.Fprintf(out, "table              %d rows in %d files: each acknowledged row once\n", r.Rows, r.Files)
}
