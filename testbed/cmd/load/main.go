// Command load sends OTLP to a collector and reports how fast it acknowledges.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/load"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// report is what the command prints and writes.
type report struct {
	load.Result

	Signal        string      `json:"signal"`
	Protocol      string      `json:"protocol"`
	Mode          string      `json:"mode,omitempty"`
	Connections   int         `json:"connections"`
	Batch         int         `json:"batch"`
	Run           string      `json:"run"`
	CPUSeconds    float64     `json:"server_cpu_seconds,omitempty"`
	CPUPerMillion float64     `json:"server_cpu_seconds_per_million,omitempty"`
	PeakRSSMiB    float64     `json:"server_peak_rss_mib,omitempty"`
	WrittenPerRec float64     `json:"server_written_bytes_per_record,omitempty"`
	AckedRequests [][2]uint64 `json:"acked_request_ranges,omitempty"`
	FailedRanges  [][2]uint64 `json:"failed_request_ranges,omitempty"`
}

func run() error {
	var p load.Plan
	flag.StringVar(&p.Protocol, "protocol", "grpc", "grpc or http")
	flag.StringVar(&p.Address, "address", "localhost:4317", "host:port of the OTLP receiver")
	flag.StringVar(&p.Mode, "mode", "", "commit mode to ask for: auto or wait_for; empty leaves it to the server")
	flag.StringVar(&p.Signal, "signal", "logs", "logs, traces or metrics")
	flag.IntVar(&p.Batch, "batch", 500, "records per request")
	flag.IntVar(&p.Resources, "resources", 4, "resources per request")
	flag.IntVar(&p.RecordBytes, "record-bytes", 500, "mean encoded size of a log record or span")
	flag.IntVar(&p.Connections, "connections", 8, "connections, one request at a time on each")
	flag.Float64Var(&p.Rate, "rate", 0, "records per second; 0 sends as fast as answers come")
	flag.IntVar(&p.Records, "records", 0, "end after this many acknowledged records; 0: no such end")
	flag.DurationVar(&p.Duration, "duration", 10*time.Second, "end after this long")
	flag.DurationVar(&p.Warmup, "warmup", time.Second, "time at the start that is left out of the figures")
	flag.DurationVar(&p.Timeout, "timeout", 30*time.Second, "time limit of a request")
	flag.StringVar(&p.Run, "run", "", "first part of every record's id (default: random)")
	pid := flag.Int("pid", 0, "process whose CPU time and peak memory to report")
	out := flag.String("output", "", "file for the report as JSON, with the acknowledged request numbers")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if p.Run == "" {
		p.Run = rand.Text()[:8]
	}
	p.Book = &load.Book{}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	r, err := measure(ctx, p, *pid)
	if err != nil {
		return err
	}
	show(r)
	if *out != "" {
		acked, failed := p.Book.Requests()
		r.AckedRequests, r.FailedRanges = load.Ranges(acked), load.Ranges(failed)
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(*out, append(data, '\n'), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func measure(ctx context.Context, p load.Plan, pid int) (report, error) {
	r := report{Signal: p.Signal, Protocol: p.Protocol, Mode: p.Mode, Connections: p.Connections, Batch: p.Batch, Run: p.Run}
	var before load.Usage
	var err error
	if pid != 0 {
		if before, err = load.ReadUsage(pid); err != nil {
			return r, err
		}
	}
	if r.Result, err = load.Run(ctx, p); err != nil {
		return r, err
	}
	if r.Requests == 0 {
		return r, errors.Join(errors.New("no request was acknowledged in the measured time"), r.Err())
	}
	if pid != 0 {
		after, err := load.ReadUsage(pid)
		if err != nil {
			return r, err
		}
		peak, err := load.PeakRSS(pid)
		if err != nil {
			return r, err
		}
		all := float64(p.Book.Acked()) // the process worked for the warm-up too
		r.CPUSeconds = (after.CPU - before.CPU).Seconds()
		r.CPUPerMillion = r.CPUSeconds / all * 1e6
		r.WrittenPerRec = float64(after.WrittenBytes-before.WrittenBytes) / all
		r.PeakRSSMiB = float64(peak) / (1 << 20)
	}
	return r, nil
}

func show(r report) {
	fmt.Printf("%s over %s, %d connections x %d records (%d bytes a request)\n", r.Signal, r.Protocol, r.Connections, r.Batch, r.RequestSize)
	fmt.Printf("acked    %d records in %.1f s: %.0f records/s\n", r.Records, r.Seconds, r.Rate)
	fmt.Printf("ack      p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms; longest gap %.0f ms\n",
		r.Latency.P50, r.Latency.P99, r.Latency.P999, r.Latency.Max, r.LongestGap)
	if r.Failed > 0 || r.Unsent > 0 {
		fmt.Printf("failed   %d requests %v, %d due but not sent; first error: %s\n", r.Failed, r.Errors, r.Unsent, r.FirstError)
	}
	if r.CPUSeconds > 0 {
		fmt.Printf("server   %.2f CPU s per million, peak RSS %.0f MiB, %.0f bytes written per record\n", r.CPUPerMillion, r.PeakRSSMiB, r.WrittenPerRec)
	}
}
