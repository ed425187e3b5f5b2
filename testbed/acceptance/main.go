// Command acceptance sends every OTLP file below a folder, and those of testdata/adversarial, through a collector of its
// own into one set of Iceberg tables and compares the tables with the files, cell by cell. It exits 1 on any difference.
//
//	acceptance -payloads DIR [-catalog sqlite|postgres]
//
// With postgres the catalog is a PostgreSQL and the warehouse a bucket of an S3 server, both of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/siglakecol/siglakecol/testbed/internal/accept"
	"github.com/siglakecol/siglakecol/testbed/internal/collector"
	"github.com/siglakecol/siglakecol/testbed/internal/tables"
	"github.com/siglakecol/siglakecol/testbed/internal/testenv"
	"github.com/siglakecol/siglakecol/testbed/internal/waldir"
)

func main() {
	payloads := flag.String("payloads", "", "folder with .json, .jsonl and .pb files of OTLP requests")
	catalog := flag.String("catalog", "sqlite", "sqlite (and local files) or postgres (and S3)")
	keep := flag.Bool("keep", false, "keep the data directory and the collector's log")
	limit := flag.Int("differences", 50, "how many differences to print")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	good, err := run(ctx, os.Stdout, *payloads, *catalog, *keep, *limit)
	if err != nil {
		fmt.Fprintln(os.Stderr, "acceptance:", err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}

// quick makes segments and commits small and soon: the run waits for them.
const quick = `
exporters:
  siglake:
    wal: {segment: {max_age: 500ms}}
extensions:
  lakecompactor:
    gate: {age: 200ms}
`

// run checks one folder and prints what it finds. It returns false on any difference.
func run(ctx context.Context, out io.Writer, payloads, catalog string, keep bool, limit int) (good bool, err error) {
	if payloads == "" {
		return false, errors.New("say -payloads DIR")
	}
	requests, err := load(payloads)
	if err != nil {
		return false, err
	}
	opt, dir, err := options()
	if err != nil {
		return false, err
	}
	if keep {
		fmt.Fprintf(out, "kept in %s\n", dir)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	place, end, err := choose(catalog, &opt)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, end()) }()
	sent, err := deliver(ctx, opt, dir, requests)
	if err != nil {
		return false, err
	}
	reader, err := tables.OpenAt(place)
	if err != nil {
		return false, err
	}
	differences, err := accept.Compare(ctx, reader, sent)
	if err := errors.Join(err, reader.Close()); err != nil {
		return false, err
	}
	return report(out, sent, differences, limit), nil
}

// load reads the requests of the folder and those of testdata/adversarial.
func load(payloads string) ([]accept.Request, error) {
	requests, err := accept.Load(payloads)
	if err != nil {
		return nil, err
	}
	root, err := testenv.Root()
	if err != nil {
		return nil, err
	}
	hostile, err := accept.Load(filepath.Join(root, "testdata", "adversarial"))
	if err != nil {
		return nil, err
	}
	for _, r := range hostile {
		r.Name = "adversarial/" + r.Name
		requests = append(requests, r)
	}
	return requests, nil
}

func options() (collector.Options, string, error) {
	bin, err := testenv.Collector()
	if err != nil {
		return collector.Options{}, "", err
	}
	config, err := testenv.DefaultConfig()
	if err != nil {
		return collector.Options{}, "", err
	}
	if _, err := testenv.Reader(); err != nil {
		return collector.Options{}, "", err
	}
	dir, err := os.MkdirTemp("", "siglake-acceptance-")
	if err != nil {
		return collector.Options{}, "", err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o750); err != nil {
		return collector.Options{}, "", err
	}
	return collector.Options{Bin: bin, Config: config, Overlay: []string{quick}, Data: data}, dir, nil
}

// deliver starts a collector, sends the requests one at a time, waits until all rows are in the tables, and stops it.
func deliver(ctx context.Context, opt collector.Options, dir string, requests []accept.Request) (sent []accept.Sent, err error) {
	p, err := collector.Start(opt, filepath.Join(dir, "collector.log"))
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	wait, cancel := context.WithTimeout(ctx, collector.StartTimeout)
	defer cancel()
	if err := p.WaitHealthy(wait); err != nil {
		return nil, err
	}
	s, err := accept.NewSender(p.HTTP, p.GRPC)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	s.SecondOpinion = true
	for _, r := range requests {
		if r.Form == "grpc" && refused(sent, r.Name) {
			continue // over gRPC the codec of the library refuses it before the collector sees it
		}
		one, err := s.Send(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("%w; last lines of the collector:\n%s", err, p.Tail(20))
		}
		sent = append(sent, one)
	}
	drain, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := waldir.WaitDrained(drain, filepath.Join(opt.Data, "wal")); err != nil {
		return nil, fmt.Errorf("%w; last lines of the collector:\n%s", err, p.Tail(20))
	}
	code, _, err := p.Stop(drain)
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, fmt.Errorf("stop collector: exit code %d", code)
	}
	return sent, nil
}

func refused(sent []accept.Sent, name string) bool {
	for _, s := range sent {
		if s.Name == name && s.Form == "pb" {
			return s.Reject != nil
		}
	}
	return false
}

type tally struct {
	requests, rows, cells, refused, wrong int
	remarks                               []string
}

// report prints a line per file, the differences and the total.
func report(out io.Writer, sent []accept.Sent, differences []accept.Difference, limit int) bool {
	files := map[string]*tally{}
	fileOf := func(name string) string {
		f, _, _ := strings.Cut(name, ":")
		return f
	}
	var total tally
	for _, s := range sent {
		t := files[fileOf(s.Name)]
		if t == nil {
			t = &tally{}
			files[fileOf(s.Name)] = t
		}
		t.requests++
		t.rows += s.Stored()
		for _, r := range s.Rows {
			t.cells += len(r)
		}
		if s.Reject != nil {
			t.refused++
		}
		if p := s.AnswerProblem(); p != "" {
			differences = append(differences, accept.Difference{Name: s.Name, Form: s.Form, Row: -1, Problem: p})
		}
		for _, u := range s.Unseen {
			differences = append(differences, accept.Difference{Name: s.Name, Form: s.Form, Row: -1, Problem: u})
		}
		if s.Remark != "" {
			t.remarks = append(t.remarks, fmt.Sprintf("%s (%s): %s", s.Name, s.Form, s.Remark))
		}
	}
	for _, d := range differences {
		if t := files[fileOf(d.Name)]; t != nil {
			t.wrong++
		}
	}
	names := accept.Names(sent)
	for _, name := range names {
		t := files[name]
		state := "ok"
		if t.wrong > 0 {
			state = fmt.Sprintf("%d DIFFERENCES", t.wrong)
		}
		fmt.Fprintf(out, "%-60s %3d requests (%d refused) %6d rows  %s\n", name, t.requests, t.refused, t.rows, state)
		for _, r := range t.remarks {
			fmt.Fprintf(out, "    remark: %s\n", r)
		}
		total.requests += t.requests
		total.refused += t.refused
		total.rows += t.rows
		total.cells += t.cells
	}
	for i, d := range differences {
		if i == limit {
			fmt.Fprintf(out, "... and %d more\n", len(differences)-limit)
			break
		}
		fmt.Fprintln(out, "DIFFERENCE", d)
	}
	fmt.Fprintf(out, "total: %d files, %d requests, %d refused as pdata refuses them, %d rows, %d cells compared, %d differences\n",
		len(names), total.requests, total.refused, total.rows, total.cells, len(differences))
	return len(differences) == 0
}
