package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/siglakecol/siglakecol/internal/mirror"
	"github.com/siglakecol/siglakecol/internal/objstore"
	"github.com/siglakecol/siglakecol/internal/segment"
	"github.com/siglakecol/siglakecol/internal/vfs"
)

// recoverFlags are those of wal-recover.
type recoverFlags struct {
	from, to       string
	dryRun, online bool
	concurrency    int
}

const walRecoverLong = `Rebuild a write-ahead log whose volume was lost from its mirror: write each segment of the mirror that the root does not
have to <tenant>/<index>/sealed/ below it, also one of which the root has only the beginning. The drain then commits them
like any others; rows that are in a table already are found there and not written again. Safe to interrupt and to run again.

--from is the mirror's own URL: the bucket_url and the prefix of the walmirror extension, for example
s3://telemetry/wal-mirror or file:///mnt/mirror/wal-mirror. Credentials and the endpoint of S3 come from the environment:
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL_S3 and all else that the AWS SDK reads. With an endpoint
of your own the bucket goes into the path of the URL.
--to is the root: what the collector has as exporters::siglake::wal::directory.

Each object is decoded before it is written. One that cannot be read is named and left out; the others are restored.

Exit codes:
  0  everything the mirror has is in the root
  1  failed, or some objects could not be fetched: run it again
  2  wrong usage, or a wrong place: --from is not the root of a mirror, --to is not the root of a log
  3  some objects cannot be read as segments`

func newWALRecover(a *app) *cobra.Command {
	var f recoverFlags
	cmd := &cobra.Command{
		Use:   "wal-recover --from URL --to WALROOT",
		Short: "Rebuild a lost write-ahead log from its mirror",
		Long:  walRecoverLong,
		Example: `  siglake wal-recover --from s3://telemetry/wal-mirror --to /var/lib/siglakecol/wal --dry-run
  siglake wal-recover --from s3://telemetry/wal-mirror --to /var/lib/siglakecol/wal`,
		Args: args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.walRecover(cmd.Context(), cmd, &f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", a.getenv("SIGLAKE_WAL_MIRROR_URL"), "URL of the mirror (environment: SIGLAKE_WAL_MIRROR_URL)")
	fl.StringVar(&f.to, "to", "", "directory of the write-ahead log to rebuild (required)")
	fl.BoolVar(&f.dryRun, "dry-run", false, "read and decode everything, write nothing")
	fl.BoolVar(&f.online, "online", false, "go on beside a collector that has the root open: restore to orphans/, where its drain looks everything up")
	fl.IntVar(&f.concurrency, "concurrency", 8, "objects read at a time")
	a.define(cmd.MarkFlagDirname("to"))
	a.outputFlag(cmd, "text", "json")
	return cmd
}

func (a *app) walRecover(ctx context.Context, cmd *cobra.Command, f *recoverFlags) error {
	from, err := f.check()
	if err != nil {
		return err
	}
	opt := objstore.Options{FS: a.fs} // S3 from the environment
	store, err := objstore.Open(ctx, from.String(), opt)
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // only a text for whoever is refused meanwhile
	bar := progress{w: a.stderr, on: a.terminal, now: a.now, text: "read %d of %d segments, %s"}
	lines := seldomLine{app: a, last: a.now()}
	rep, err := mirror.Restore(ctx, mirror.RestoreOptions{
		FS: a.fs, Dir: f.to, Store: store, DryRun: f.dryRun, Online: f.online, Concurrency: f.concurrency,
		Holder: fmt.Sprintf("siglake wal-recover, pid %d on %s", os.Getpid(), host),
		Progress: func(done, of int, size int64) {
			bar.total = of
			bar.draw(done, size)
			lines.print(done, of, size)
		},
	})
	bar.clear()
	err = errors.Join(a.explainRecover(ctx, from, opt, err), store.Close())
	if _, wrong := errors.AsType[*exitError](err); wrong || err != nil && len(rep.Lanes) == 0 {
		return err
	}
	out := recoverReport(rep, f)
	if a.output == "json" {
		err = errors.Join(err, writeJSON(cmd.OutOrStdout(), out))
	} else {
		err = errors.Join(err, out.write(cmd.OutOrStdout()))
	}
	if err != nil {
		return err
	}
	return out.verdict()
}

// check looks at the flags.
func (f *recoverFlags) check() (objstore.Location, error) {
	if f.from == "" || f.to == "" {
		return objstore.Location{}, usageError("wal-recover: give --from, the URL of the mirror, and --to, the directory of the write-ahead log")
	}
	from, err := objstore.ParseURL(f.from)
	if err != nil {
		return objstore.Location{}, usageError("--from: %w", err)
	}
	if f.concurrency < 1 {
		return objstore.Location{}, usageError("--concurrency: %d is below 1", f.concurrency)
	}
	// A segment would come to lie in <root>/<tenant>/<index>/sealed/<tenant>/<index>/sealed, which nothing drains.
	if base := filepath.Base(filepath.Clean(f.to)); base == string(segment.Sealed) {
		parent := filepath.Dir(filepath.Clean(f.to))
		return objstore.Location{}, usageError("--to: %s is a directory of segments; give the root of the write-ahead log, the directory of siglake-wal.json (some levels above %s)", f.to, parent)
	}
	return from, nil
}

// explainRecover says what to do about what ends a recovery.
func (a *app) explainRecover(ctx context.Context, from objstore.Location, opt objstore.Options, err error) error {
	if locked, ok := errors.AsType[*vfs.LockedError](err); ok {
		return fmt.Errorf("the root is in use: %s is held by %s; stop that process, or give --online to restore beside it", locked.Name, locked.Holder)
	}
	if errors.Is(err, segment.ErrNotEmpty) {
		return usageError("--to: %w", err)
	}
	missing, ok := errors.AsType[*mirror.NoMirrorError](err)
	if !ok {
		return err
	}
	var hint string
	switch up := a.mirrorAbove(ctx, from, opt); {
	case len(missing.Below) > 0:
		hint = "there is one at " + from.Join(missing.Below[0]).String()
	case up != "":
		hint = "there is one at " + up
	case missing.Objects == 0:
		hint = "nothing is there; give bucket_url and prefix of the walmirror extension, as bucket_url/prefix"
	default:
		hint = plural(missing.Objects, "object is", "objects are") +
			" there and none is siglake-mirror.json; give bucket_url and prefix of the walmirror extension, as bucket_url/prefix"
		if missing.Segments > 0 {
			hint += fmt.Sprintf(". If that is what you gave, the marker of %s was deleted: put an object siglake-mirror.json with the content %s there",
				plural(missing.Segments, "segment", "segments"), mirror.EmptyMarker)
		}
	}
	return usageError("--from: %s is not the root of a mirror: %s", from, hint)
}

// mirrorAbove looks for the root that the user may have meant, up to three levels up: tenant, index and a directory
// named twice.
func (a *app) mirrorAbove(ctx context.Context, from objstore.Location, opt objstore.Options) string {
	for range 3 {
		up := from.Join("..")
		if up == from {
			return ""
		}
		from = up
		store, err := objstore.Open(ctx, from.String(), opt)
		if err != nil {
			return ""
		}
		found := mirror.Marked(ctx, store)
		_ = store.Close() // only read
		if found {
			return from.String()
		}
	}
	return ""
}

// seldomLine tells how far a long recovery is where no bar can be drawn.
type seldomLine struct {
	app  *app
	last time.Time
}

func (l *seldomLine) print(done, of int, size int64) {
	if l.app.terminal || l.app.now().Sub(l.last) < 5*time.Second {
		return
	}
	l.last = l.app.now()
	_, _ = fmt.Fprintf(l.app.stderr, "read %d of %d segments, %s\n", done, of, humanBytes(size)) // an ornament
}

// recovered is the report of wal-recover.
type recovered struct {
	DryRun     bool             `json:"dry_run"`
	From       string           `json:"from"`
	To         string           `json:"to"`
	Lanes      []recoveredLane  `json:"lanes"`
	Segments   int              `json:"segments"` // restored, or in a dry run to be restored
	Longer     int              `json:"longer"`   // of them those of which the root had only a beginning
	Rows       int64            `json:"rows"`
	Bytes      int64            `json:"bytes"`
	Present    int              `json:"present"`
	Unreadable []mirror.Finding `json:"unreadable"`
	Failed     []mirror.Finding `json:"failed"`
	Foreign    int              `json:"foreign"`
	Named      []string         `json:"foreign_keys"` // the first of them
	Superseded int              `json:"superseded"`
	Gaps       []mirror.LaneGap `json:"gaps"`
}

type recoveredLane struct {
	Tenant     string `json:"tenant"`
	Index      string `json:"index"`
	Segments   int    `json:"segments"`
	Open       int    `json:"open"`
	Longer     int    `json:"longer"`
	Rows       int64  `json:"rows"`
	Bytes      int64  `json:"bytes"`
	MinTime    string `json:"min_time,omitempty"`
	MaxTime    string `json:"max_time,omitempty"`
	Present    int    `json:"present"`
	Unreadable int    `json:"unreadable"`
	Failed     int    `json:"failed"`
}

func recoverReport(rep mirror.Report, f *recoverFlags) recovered {
	out := recovered{
		DryRun: f.dryRun, From: objstore.Redact(f.from), To: f.to, Lanes: []recoveredLane{}, Unreadable: orEmpty(rep.Unreadable),
		Failed: orEmpty(rep.Failed), Foreign: rep.Foreign, Named: orEmpty(rep.Named), Superseded: rep.Superseded, Gaps: orEmpty(rep.Gaps),
	}
	for _, l := range rep.Lanes {
		lane := recoveredLane{
			Tenant: l.Tenant, Index: l.Index, Segments: l.Restored, Open: l.Open, Longer: l.Longer, Rows: l.Rows, Bytes: l.Bytes,
			Present: l.Present, Unreadable: l.Unreadable, Failed: l.Failed,
		}
		if l.MinTime != 0 || l.MaxTime != 0 {
			lane.MinTime, lane.MaxTime = nanoTime(l.MinTime), nanoTime(l.MaxTime)
		}
		out.Lanes = append(out.Lanes, lane)
		out.Segments += l.Restored
		out.Longer += l.Longer
		out.Rows += l.Rows
		out.Bytes += l.Bytes
		out.Present += l.Present
	}
	return out
}

// orEmpty is a list that JSON shows as one.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// verdict turns what is missing into an error.
func (r *recovered) verdict() error {
	switch {
	case len(r.Unreadable) > 0:
		return damageError("%s cannot be read as segments; all others are restored", plural(len(r.Unreadable), "object", "objects"))
	case len(r.Failed) > 0:
		return fmt.Errorf("%s could not be fetched; run it again", plural(len(r.Failed), "object", "objects"))
	}
	return nil
}

func (r *recovered) write(w interface{ Write([]byte) (int, error) }) error {
	g := grid{
		header: []string{"TENANT", "INDEX", "SEGMENTS", "ROWS", "BYTES", "FROM", "TO", "PRESENT", "UNREADABLE", "FAILED"},
		right:  []bool{false, false, true, true, true, false, false, true, true, true},
	}
	for _, l := range r.Lanes {
		g.add(l.Tenant, l.Index, humanCount(int64(l.Segments)), humanCount(l.Rows), humanBytes(l.Bytes), l.MinTime, l.MaxTime,
			humanCount(int64(l.Present)), humanCount(int64(l.Unreadable)), humanCount(int64(l.Failed)))
	}
	if len(r.Lanes) > 0 {
		if err := g.write(w); err != nil {
			return err
		}
	}
	var b strings.Builder
	for _, f := range r.Unreadable {
		fmt.Fprintf(&b, "unreadable: %s: %s\n", oneLine(f.Key), oneLine(f.Reason))
	}
	for _, f := range r.Failed {
		fmt.Fprintf(&b, "failed: %s: %s\n", oneLine(f.Key), oneLine(f.Reason))
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(&b, "no object: lane %s, writer %s, numbers %d to %d\n", g.Lane, g.Writer, g.First, g.Last)
	}
	if len(r.Gaps) > 0 {
		b.WriteString("Segments without an object are, as a rule, committed: the compactor deletes their copies when retention::mirror is over.\n" +
			"Else they were empty, or were lost with the volume before their upload. Compare the rows of the tables.\n")
	}
	for _, key := range r.Named {
		fmt.Fprintf(&b, "no segment, left alone: %s\n", oneLine(key))
	}
	if r.Longer > 0 {
		fmt.Fprintf(&b, "%s of which the root had only the beginning; the drain writes the rows behind it\n", plural(r.Longer, "segment", "segments"))
	}
	verb := "restored"
	if r.DryRun {
		verb = "would be restored, nothing was written"
	}
	fmt.Fprintf(&b, "%s, %s rows, %s %s; %s present already\n", plural(r.Segments, "segment", "segments"), humanCount(r.Rows), humanBytes(r.Bytes),
		verb, humanCount(int64(r.Present)))
	_, err := w.Write([]byte(b.String()))
	return err
}
