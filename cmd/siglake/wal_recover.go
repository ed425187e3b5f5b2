package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

Each object is decoded before it is written. One that cannot be read is named, and another object of the same segment is
restored instead, if there is one: its beginning in _active/, or a copy in another lane. All others are restored.
A segment that the root has in poison/ and nowhere else is named and left there.

Exit codes:
  0  everything the mirror has is in the root
  1  failed, or some objects could not be fetched: run it again (also when there is what makes it 3)
  2  wrong usage, or a wrong place: --from is not the root of a mirror, --to is not the root of a log
  3  some objects cannot be read as segments, or the root has some segments in poison/ only`

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
